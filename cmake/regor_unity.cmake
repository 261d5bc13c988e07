# Read by regor's own project() (tools/regor.sh): the files that are compiled alone, because they repeat names of others or include
# headers without guards. One too few here and regor does not build.
file(GLOB alone architecture/ethosu65/*.cpp architecture/ethosu85/*.cpp)
set_source_files_properties(${alone} architecture/ethosu55/ethos_u55_constraints.cpp compiler/scheduler_decompose.cpp
  tflite/tflite_supported_operators_u55.cpp tflite/tflite_writer.cpp PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)

# Its search for addresses is ours.
set(SWOOP_PLACE ${CMAKE_CURRENT_LIST_DIR}/regor_place.cpp)
set_source_files_properties(compiler/hillclimb_allocator.cpp PROPERTIES HEADER_FILE_ONLY ON)  # not compiled
set_source_files_properties(${SWOOP_PLACE} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
cmake_language(DEFER CALL target_sources regor-objects PRIVATE ${SWOOP_PLACE})
