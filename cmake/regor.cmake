# regor as an imported library, built once for all clones and presets beside our own files, and Vela's own vela.ini as a generated
# header: its numbers are Arm's, so they are taken from the release and not kept in this tree.
add_custom_command(OUTPUT ${REGOR_LIBRARY} COMMAND ${CMAKE_SOURCE_DIR}/tools/regor.sh ${REGOR_SOURCE} ${REGOR_LIBRARY}
  COMMENT "Building regor ${SWOOP_VELA_VERSION}, once" VERBATIM)
add_custom_target(regor_library DEPENDS ${REGOR_LIBRARY})  # nobody need depend on it: what is linked with the file waits for it
add_library(regor STATIC IMPORTED)
set_target_properties(regor PROPERTIES
  IMPORTED_LOCATION ${REGOR_LIBRARY}
  INTERFACE_INCLUDE_DIRECTORIES "${REGOR_SOURCE}/include;${REGOR_SOURCE}/dependencies/mlw_codec/include;${CMAKE_BINARY_DIR}/regor"  # SYSTEM, as of every import
  INTERFACE_LINK_LIBRARIES "Threads::Threads;swoop_npu")  # which has the inner loops that are not regor's own

set(vela_ini ${REGOR_SOURCE}/../config_files/Arm/vela.ini)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${vela_ini})
file(READ ${vela_ini} VELA_INI)
file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/regor)
configure_file(${CMAKE_SOURCE_DIR}/cmake/vela_ini.h.in ${CMAKE_BINARY_DIR}/regor/vela_ini.h @ONLY)

set(SWOOP_npu_LIBRARIES regor)
