# Read by regor's own project() (tools/regor.sh): the files that are compiled alone, because they repeat names of others or include
# headers without guards. One too few here and regor does not build.
file(GLOB alone architecture/ethosu65/*.cpp architecture/ethosu85/*.cpp)
set_source_files_properties(${alone} architecture/ethosu55/ethos_u55_constraints.cpp compiler/scheduler_decompose.cpp
  tflite/tflite_supported_operators_u55.cpp tflite/tflite_writer.cpp PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
