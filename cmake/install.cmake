# make install PREFIX=FOLDER: the program, the library that runs files with the ExecuTorch libraries it needs, and the licences of
# what they contain. src/run/runtime.cpp finds ../lib/swoop from the program, so that the folder can be moved as a whole.
install(TARGETS swoop RUNTIME DESTINATION bin)
install(TARGETS swoop_run_library LIBRARY DESTINATION lib/swoop)
install(PROGRAMS ${executorch_libraries} DESTINATION lib/swoop)

set(licences share/doc/swoop)
install(FILES LICENSE README.md DESTINATION ${licences})
file(GLOB executorch_licence ${EXECUTORCH_ROOT}-*.dist-info/licenses/LICENSE)
install(FILES ${executorch_licence} DESTINATION ${licences} RENAME LICENSE.executorch)
install(FILES ${REGOR_SOURCE}/../../LICENSE.txt DESTINATION ${licences} RENAME LICENSE.regor)
install(FILES ${REGOR_SOURCE}/../../THIRDPARTY.md DESTINATION ${licences} RENAME THIRDPARTY.regor.md)
foreach(package libcli11-dev libeigen3-dev libflatbuffers-dev)  # headers that the program contains
  install(FILES /usr/share/doc/${package}/copyright DESTINATION ${licences} RENAME LICENSE.${package} OPTIONAL)
endforeach()
