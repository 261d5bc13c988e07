# room(NAME USES other rooms...): a static library from src/NAME/*.cpp and, with SWOOP_TESTS, a test program NAME_test
# from src/NAME/*_test.cpp. Fuzz targets (src/NAME/*_fuzz.cpp) are built with SWOOP_SANITIZE.
add_custom_target(fuzzers)

# A room's files are compiled eight at a time, so that the headers they share are read once: a build from nothing takes
# a third of the time. -DSWOOP_UNITY=OFF compiles each file by itself.
option(SWOOP_UNITY "Compile the files of a room together" ON)
function(together TARGET)
  set_target_properties(${TARGET} PROPERTIES UNITY_BUILD ${SWOOP_UNITY} UNITY_BUILD_BATCH_SIZE 8)
endfunction()

function(room NAME)
  cmake_parse_arguments(ROOM "" "" "USES" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/${NAME}/*.cpp)
  set(tests ${sources})
  set(fuzzers ${sources})
  list(FILTER tests INCLUDE REGEX "_test\\.cpp$")
  list(FILTER fuzzers INCLUDE REGEX "_fuzz\\.cpp$")
  list(FILTER sources EXCLUDE REGEX "(_test|_fuzz|/main)\\.cpp$")

  set(libraries "")
  foreach(used ${ROOM_USES})
    list(APPEND libraries swoop_${used})
  endforeach()

  if(sources)
    add_library(swoop_${NAME} STATIC ${sources})
    together(swoop_${NAME})
    set(scope PUBLIC)
  else()
    add_library(swoop_${NAME} INTERFACE)
    set(scope INTERFACE)
  endif()
  target_include_directories(swoop_${NAME} ${scope} ${CMAKE_SOURCE_DIR}/src)
  target_link_libraries(swoop_${NAME} ${scope} swoop_flags ${libraries} fmt::fmt ${SWOOP_${NAME}_LIBRARIES})

  if(SWOOP_TESTS AND tests)
    add_executable(${NAME}_test ${tests})
    together(${NAME}_test)
    target_link_libraries(${NAME}_test PRIVATE swoop_${NAME} ${SWOOP_${NAME}_TEST_LIBRARIES} GTest::gtest_main)
    target_compile_definitions(${NAME}_test PRIVATE SWOOP_SOURCE_DIR="${CMAKE_SOURCE_DIR}")
    target_compile_options(${NAME}_test PRIVATE -O1)  # half of the time that -O3 takes to compile them
    add_test(NAME ${NAME} COMMAND ${NAME}_test)
  endif()
  if(SWOOP_SANITIZE)
    foreach(file ${fuzzers})
      get_filename_component(fuzzer ${file} NAME_WE)
      add_executable(${fuzzer} ${file})
      target_link_libraries(${fuzzer} PRIVATE swoop_${NAME} -fsanitize=fuzzer)
      add_dependencies(fuzzers ${fuzzer})
    endforeach()
  endif()
endfunction()
