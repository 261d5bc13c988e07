# Runs at install time: copies the shared libraries of the system that the program and the run library need, the licence of the Debian
# package that each comes from, and writes the list of everything that is bundled (sbom.json, CycloneDX).
file(GET_RUNTIME_DEPENDENCIES
  EXECUTABLES ${program} LIBRARIES ${run_library} ${image_library}
  RESOLVED_DEPENDENCIES_VAR libraries
  PRE_EXCLUDE_REGEXES "^ld-linux" "^libc\\.so" "^lib(m|dl|rt|pthread|stdc\\+\\+|gcc_s)\\.so" "^libexecutorch")
set(prefix $ENV{DESTDIR}${CMAKE_INSTALL_PREFIX})
set(files "")
foreach(library ${image_library} ${libraries})
  get_filename_component(name ${library} NAME)
  file(REAL_PATH ${library} file)
  file(INSTALL ${file} DESTINATION ${prefix}/lib/swoop RENAME ${name})  # not as a link: a wheel has none
  get_filename_component(file ${file} NAME)
  list(APPEND files ${file})
endforeach()
execute_process(COMMAND dpkg -S ${files} OUTPUT_VARIABLE owners ERROR_QUIET)
string(REGEX MATCHALL "[^\n:]+:[^\n]*\n" owners "${owners}")
list(TRANSFORM owners REPLACE ":.*" "")
list(REMOVE_DUPLICATES owners)
foreach(package ${owners})
  file(INSTALL /usr/share/doc/${package}/copyright DESTINATION ${prefix}/share/doc/swoop RENAME LICENSE.${package})
endforeach()

# Headers that the program contains, and libraries that it is linked with or that lie beside it.
set(components "")
function(component NAME VERSION LICENCE)
  string(APPEND components "\n    {\"type\": \"library\", \"name\": \"${NAME}\", \"version\": \"${VERSION}\", \"properties\": [{\"name\": \"licence file\", \"value\": \"${LICENCE}\"}]},")
  set(components "${components}" PARENT_SCOPE)
endfunction()
component(executorch ${executorch_version} LICENSE.executorch)
component(ethos-u-vela ${vela_version} LICENSE.regor)
foreach(package ${owners} ${header_packages})
  execute_process(COMMAND dpkg-query -W -f "\${Version}" ${package} OUTPUT_VARIABLE version ERROR_QUIET)
  component(${package} "${version}" LICENSE.${package})
endforeach()
string(REGEX REPLACE ",$" "" components "${components}")
file(WRITE ${prefix}/share/doc/swoop/sbom.json "{\"bomFormat\": \"CycloneDX\", \"specVersion\": \"1.5\", \"version\": 1,
  \"metadata\": {\"component\": {\"type\": \"application\", \"name\": \"swoop\", \"version\": \"${swoop_version}\"}},
  \"components\": [${components}\n  ]}\n")
