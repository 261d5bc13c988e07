# make install PREFIX=FOLDER: the program, the library that runs files with the ExecuTorch libraries it needs, and the licences of
# what they contain. src/run/runtime.cpp finds ../lib/swoop from the program, so that the folder can be moved as a whole.
install(TARGETS swoop RUNTIME DESTINATION bin)
install(TARGETS swoop_run_library LIBRARY DESTINATION lib/swoop)
install(PROGRAMS ${executorch_libraries} DESTINATION lib/swoop)
install(FILES test/models/resnet8_int8.pt2 DESTINATION share/swoop)  # something to try it with

# The system's libraries go along, because another machine may have others or none. The C and C++ libraries stay out: those must be the
# machine's own. DT_RPATH also leads the libraries that are copied to each other; the newer DT_RUNPATH does not.
set_target_properties(swoop PROPERTIES INSTALL_RPATH "$ORIGIN;$ORIGIN/../lib/swoop")
target_link_options(swoop PRIVATE -Wl,--disable-new-dtags)
set(header_packages libcli11-dev libeigen3-dev libflatbuffers-dev libtomlplusplus-dev nlohmann-json3-dev)  # that the program contains
file(GLOB executorch_info ${EXECUTORCH_ROOT}-*.dist-info)
string(REGEX REPLACE ".*executorch-(.*)\\.dist-info" "\\1" executorch_version "${executorch_info}")
install(CODE "set(program \"$<TARGET_FILE:swoop>\")
set(run_library \"$<TARGET_FILE:swoop_run_library>\")
set(image_library \"${IMAGE_LIBRARY}\")
set(swoop_version ${PROJECT_VERSION})
set(vela_version ${SWOOP_VELA_VERSION})
set(executorch_version ${executorch_version})
set(header_packages ${header_packages})")
install(SCRIPT cmake/system_libraries.cmake)

set(licences share/doc/swoop)
install(FILES LICENSE README.md DESTINATION ${licences})
file(GLOB executorch_licence ${EXECUTORCH_ROOT}-*.dist-info/licenses/LICENSE)
install(FILES ${executorch_licence} DESTINATION ${licences} RENAME LICENSE.executorch)
install(FILES ${REGOR_SOURCE}/../../LICENSE.txt DESTINATION ${licences} RENAME LICENSE.regor)
install(FILES ${REGOR_SOURCE}/../../THIRDPARTY.md DESTINATION ${licences} RENAME THIRDPARTY.regor.md)
foreach(package ${header_packages})
  install(FILES /usr/share/doc/${package}/copyright DESTINATION ${licences} RENAME LICENSE.${package} OPTIONAL)
endforeach()
