# The example of `--firmware` as a header: each file of src/report/firmware under its name. Included, it declares the header; run as a
# script (cmake -P) it writes it.
set(FIRMWARE_FOLDER ${CMAKE_CURRENT_LIST_DIR}/../src/report/firmware)
file(GLOB firmware_files ${FIRMWARE_FOLDER}/*)
if(NOT CMAKE_SCRIPT_MODE_FILE)
  set(firmware_header ${CMAKE_BINARY_DIR}/page/firmware_text.h)
  add_custom_command(OUTPUT ${firmware_header}
    COMMAND ${CMAKE_COMMAND} -D FIRMWARE_HEADER=${firmware_header} -P ${CMAKE_CURRENT_LIST_FILE}
    DEPENDS ${CMAKE_CURRENT_LIST_FILE} ${firmware_files} VERBATIM)
  add_custom_target(firmware_text DEPENDS ${firmware_header})
  add_dependencies(report_page firmware_text)
  add_dependencies(generated firmware_text)
  return()
endif()

set(rows "")
foreach(file ${firmware_files})
  get_filename_component(name ${file} NAME)
  file(READ ${file} text)
  string(APPEND rows "    {\"${name}\", R\"firmware(${text})firmware\"},\n")
endforeach()
file(WRITE ${FIRMWARE_HEADER} "// Generated from src/report/firmware.\n#pragma once\n\ninline constexpr struct {\n  const char* name;\n  const char* text;\n} kFirmwareFiles[] = {\n${rows}};\n")
