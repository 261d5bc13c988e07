# Read by regor's own project() (tools/regor.sh): the files that are compiled alone, because they repeat names of others or include
# headers without guards. One too few here and regor does not build.
file(GLOB alone architecture/ethosu65/*.cpp architecture/ethosu85/*.cpp)
set_source_files_properties(${alone} architecture/ethosu55/ethos_u55_constraints.cpp compiler/scheduler_decompose.cpp
  tflite/tflite_supported_operators_u55.cpp tflite/tflite_writer.cpp PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)

# Files of ours, each in place of one of regor's.
function(swoop_replace THEIRS OURS)
  set_source_files_properties(${THEIRS} PROPERTIES HEADER_FILE_ONLY ON)  # not compiled
  set_source_files_properties(${OURS} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  cmake_language(EVAL CODE "cmake_language(DEFER DIRECTORY [[${CMAKE_CURRENT_SOURCE_DIR}]] CALL target_sources regor-objects PRIVATE [[${OURS}]])")
endfunction()
swoop_replace(compiler/hillclimb_allocator.cpp ${CMAKE_CURRENT_LIST_DIR}/regor_place.cpp)
swoop_replace(architecture/mlw_encode.cpp ${CMAKE_CURRENT_LIST_DIR}/regor_encode.cpp)
swoop_replace(common/hash.cpp ${CMAKE_CURRENT_LIST_DIR}/regor_hash.cpp)
