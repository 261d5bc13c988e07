# What we do not write ourselves. System packages come from Debian; the schemas and the runtime from the executorch wheel in
# .venv; regor from the cache that tools/setup.sh fills. tools/setup.sh installs all of them.
if(SKBUILD)  # pip calls CMake by itself, and its own modules are not for the Python that the script calls
  execute_process(COMMAND ${CMAKE_COMMAND} -E env --unset=PYTHONPATH ${CMAKE_SOURCE_DIR}/tools/setup.sh build COMMAND_ERROR_IS_FATAL ANY)
endif()
find_package(Threads REQUIRED)
find_package(fmt REQUIRED)
find_package(ZLIB REQUIRED)
find_package(simdjson REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(tomlplusplus REQUIRED)
find_package(CLI11 REQUIRED)
find_package(Eigen3 REQUIRED NO_MODULE)
find_program(FLATC flatc REQUIRED)
if(SWOOP_TESTS)
  enable_testing()
  find_package(GTest REQUIRED)
endif()

set(SWOOP_CACHE "$ENV{SWOOP_CACHE}" CACHE PATH "Where tools/setup.sh keeps long builds")
if(NOT SWOOP_CACHE)
  set(SWOOP_CACHE "$ENV{HOME}/.cache/swoop")
endif()
set(SWOOP_VELA_VERSION 5.1.0)  # the release that executorch 1.5.1 pins, so that its `vela` command is our byte-for-byte peer
set(REGOR_SOURCE ${SWOOP_CACHE}/regor-${SWOOP_VELA_VERSION}/src/ethosu/regor)
# A library per way of building it: clones of several commits share the cache.
set(regor_recipe "")
foreach(file tools/regor.sh cmake/regor_unity.cmake cmake/regor_place.cpp cmake/regor_encode.cpp cmake/regor_hash.cpp src/npu/regor_parts.h)
  file(SHA256 ${CMAKE_SOURCE_DIR}/${file} hash)
  string(APPEND regor_recipe ${hash})
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/${file})
endforeach()
string(SHA256 regor_recipe "${regor_recipe}")
string(SUBSTRING ${regor_recipe} 0 12 regor_recipe)
set(REGOR_LIBRARY ${SWOOP_CACHE}/regor-${SWOOP_VELA_VERSION}/build-${regor_recipe}/libregor.a)
file(GLOB EXECUTORCH_ROOT ${CMAKE_SOURCE_DIR}/.venv/lib/python3*/site-packages/executorch)
if(NOT EXECUTORCH_ROOT OR NOT EXISTS ${REGOR_SOURCE})
  message(FATAL_ERROR "Run tools/setup.sh first (make does): it installs the executorch wheel and regor.")
endif()

# schema(NAME FILE): a header schema/NAME.h made by flatc from FILE and all that it includes; a room gets it by linking
# NAME_schema (SWOOP_<room>_LIBRARIES). regor and ExecuTorch carry other versions of FlatBuffers: in that header the
# namespace is swoop_flatbuffers, so that the linker cannot mix them up.
find_path(FLATBUFFERS_INCLUDE flatbuffers/flatbuffers.h REQUIRED)
add_custom_target(generated)  # every header that the build makes
function(schema NAME FILE)
  get_filename_component(folder ${FILE} DIRECTORY)
  set(generated ${CMAKE_BINARY_DIR}/generated/schema)
  file(CONFIGURE OUTPUT ${generated}/${NAME}.h CONTENT
"#pragma once
#define flatbuffers swoop_flatbuffers
#include \"schema/${NAME}_generated.h\"
#undef flatbuffers
")
  set(copy ${generated}/${NAME}.fbs)  # flatc names its output after its input
  add_custom_command(
    OUTPUT ${generated}/${NAME}_generated.h
    COMMAND ${CMAKE_COMMAND} -E copy ${FILE} ${copy}
    COMMAND ${FLATC} --cpp --gen-all --scoped-enums -I ${folder} -o ${generated} ${copy}
    DEPENDS ${FILE})
  add_custom_target(${NAME}_schema_header DEPENDS ${generated}/${NAME}_generated.h)
  add_dependencies(generated ${NAME}_schema_header)
  add_library(${NAME}_schema INTERFACE)
  add_dependencies(${NAME}_schema ${NAME}_schema_header)
  target_include_directories(${NAME}_schema SYSTEM INTERFACE ${CMAKE_BINARY_DIR}/generated ${FLATBUFFERS_INCLUDE})
endfunction()

# zip archives; parallel_for; JSON out; half floats
set(SWOOP_support_LIBRARIES ZLIB::ZLIB Threads::Threads nlohmann_json::nlohmann_json Eigen3::Eigen)
set(SWOOP_ops_LIBRARIES Eigen3::Eigen)  # matrix products
set(SWOOP_import_LIBRARIES simdjson::simdjson)
set(SWOOP_cli_LIBRARIES tomlplusplus::tomlplusplus)     # --config
set(SWOOP_driver_LIBRARIES tomlplusplus::tomlplusplus)  # --quantize-config
schema(tosa ${EXECUTORCH_ROOT}/backends/arm/tosa/schemas/tosa_1.0.fbs)
set(SWOOP_tosa_LIBRARIES tosa_schema)
schema(program ${EXECUTORCH_ROOT}/schema/program.fbs)
set(SWOOP_emit_LIBRARIES program_schema)
include(executorch)
set(SWOOP_emit_TEST_LIBRARIES executorch_sdk)
include(regor)

# Float kernels vectorise only where the compiler need not keep floating-point exceptions and errno, which nobody reads here. No value changes.
foreach(file unary elementwise_ref norm_ref pool_ref reduce_ref conv_ref tensor)
  set_source_files_properties(${CMAKE_SOURCE_DIR}/src/ops/${file}.cpp PROPERTIES COMPILE_OPTIONS "-fno-trapping-math;-fno-math-errno")
endforeach()
# One file holds Eigen for AVX2. Always optimised: then what the standard library defines inline is inlined there, and no copy of it
# for AVX2 is left for the linker to choose for the whole program.
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  set_source_files_properties(${CMAKE_SOURCE_DIR}/src/ops/product_avx2.cpp PROPERTIES COMPILE_OPTIONS "-O3;-mavx2;-mfma")
  set_source_files_properties(${CMAKE_SOURCE_DIR}/src/ops/product_avx512.cpp PROPERTIES
    COMPILE_OPTIONS "-O3;-mavx512f;-mfma;-Wno-uninitialized")  # a false positive in GCC 12's own header (bug 105593)
endif()
# Eigen's headers take long to compile: one file has them.
set_source_files_properties(${CMAKE_SOURCE_DIR}/src/support/half.cpp PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
find_path(LEPTONICA_INCLUDE leptonica/allheaders.h REQUIRED)
find_library(LEPTONICA_LIBRARY leptonica REQUIRED)
# Loaded when there are images, by the name that it would be linked by.
execute_process(COMMAND ${CMAKE_OBJDUMP} -p ${LEPTONICA_LIBRARY} OUTPUT_VARIABLE leptonica_header COMMAND_ERROR_IS_FATAL ANY)
string(REGEX MATCH "SONAME +([^ \n]+)" leptonica_name "${leptonica_header}")
add_library(leptonica INTERFACE)
target_include_directories(leptonica SYSTEM INTERFACE ${LEPTONICA_INCLUDE})
target_compile_definitions(leptonica INTERFACE SWOOP_LEPTONICA="${CMAKE_MATCH_1}")
get_filename_component(leptonica_folder ${LEPTONICA_LIBRARY} DIRECTORY)
set(IMAGE_LIBRARY ${leptonica_folder}/${CMAKE_MATCH_1})  # install() takes it along
target_link_libraries(leptonica INTERFACE ${CMAKE_DL_LIBS})
set(SWOOP_samples_LIBRARIES leptonica)  # images as calibration samples
set(SWOOP_samples_TEST_LIBRARIES ${LEPTONICA_LIBRARY})
