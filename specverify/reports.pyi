# Type checkers follow this pointer to the top-level folder that is installed as specverify.reports.
from reports import *
