# SPDX-License-Identifier: Apache-2.0
# For scripts/mutants: the core is built file by file, so that a bug costs one of them; all else is joined as usual.
cmake_language(DEFER DIRECTORY ${CMAKE_SOURCE_DIR} CALL set_target_properties lanemq_core PROPERTIES UNITY_BUILD OFF)
