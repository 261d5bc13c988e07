# What we do not write ourselves. System packages come from Debian; the schemas and the runtime from the executorch wheel in
# .venv; regor from the cache that tools/setup.sh fills. tools/setup.sh installs all of them.
find_package(Threads REQUIRED)
find_package(fmt REQUIRED)
find_package(ZLIB REQUIRED)
find_package(simdjson REQUIRED)
find_package(CLI11 REQUIRED)
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
set(REGOR_LIBRARY ${SWOOP_CACHE}/regor-${SWOOP_VELA_VERSION}/build/libregor.a)
file(GLOB EXECUTORCH_ROOT ${CMAKE_SOURCE_DIR}/.venv/lib/python3*/site-packages/executorch)
if(NOT EXECUTORCH_ROOT OR NOT EXISTS ${REGOR_SOURCE})
  message(FATAL_ERROR "Run tools/setup.sh first (make does): it installs the executorch wheel and regor.")
endif()

# schema(FILE): a C++ header made by flatc, in ${CMAKE_BINARY_DIR}/schema.
set(SCHEMA_DIR ${CMAKE_BINARY_DIR}/schema)
function(schema FILE)
  get_filename_component(stem ${FILE} NAME_WE)
  get_filename_component(folder ${FILE} DIRECTORY)
  add_custom_command(
    OUTPUT ${SCHEMA_DIR}/${ARGV1}
    COMMAND ${FLATC} --cpp --gen-mutable --scoped-enums -I ${folder} -o ${SCHEMA_DIR} ${FILE}
    DEPENDS ${FILE})
endfunction()
