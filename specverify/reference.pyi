# Type checkers follow this pointer to the top-level folder that is installed as specverify.reference.
from reference import *
from reference import verify_block_torch as verify_block_torch
from reference import verify_token_compiled as verify_token_compiled
from reference import verify_token_fast as verify_token_fast
from reference import verify_token_seeded_torch as verify_token_seeded_torch
from reference import verify_token_torch as verify_token_torch
from reference import verify_token_triton as verify_token_triton
