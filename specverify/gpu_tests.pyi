# Type checkers follow this pointer to the top-level folder that is installed as specverify.gpu_tests.
from gpu_tests import *
