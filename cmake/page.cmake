# The page of `--report` as a header: the files of src/report/page in one text, cut where the summary's JSON goes. Included, it declares the
# header; run as a script (cmake -P) it writes it.
set(PAGE_FOLDER ${CMAKE_CURRENT_LIST_DIR}/../src/report/page)
if(NOT CMAKE_SCRIPT_MODE_FILE)
  set(page_header ${CMAKE_BINARY_DIR}/page/page_text.h)
  add_custom_command(OUTPUT ${page_header}
    COMMAND ${CMAKE_COMMAND} -D PAGE_HEADER=${page_header} -P ${CMAKE_CURRENT_LIST_FILE}
    DEPENDS ${CMAKE_CURRENT_LIST_FILE} ${PAGE_FOLDER}/page.html ${PAGE_FOLDER}/page.css ${PAGE_FOLDER}/page.js VERBATIM)
  add_custom_target(page_text DEPENDS ${page_header})
  add_library(report_page INTERFACE)
  target_include_directories(report_page INTERFACE ${CMAKE_BINARY_DIR}/page)
  add_dependencies(report_page page_text)
  add_dependencies(generated page_text)
  set(SWOOP_report_LIBRARIES report_page)
  return()
endif()

file(READ ${PAGE_FOLDER}/page.html page)
foreach(part css js)
  file(READ ${PAGE_FOLDER}/page.${part} text)
  string(REPLACE "{{page.${part}}}" "${text}" page "${page}")
endforeach()
string(REPLACE "{{summary}}" ")page\";\ninline constexpr char kPageAfterJson[] = R\"page(" page "${page}")
file(WRITE ${PAGE_HEADER} "// Generated from src/report/page.\n#pragma once\n\ninline constexpr char kPageBeforeJson[] = R\"page(${page})page\";\n")
