# Manuals and completions, written by the programs that were built: no option is described twice.
find_program(SCDOC scdoc DOC "Makes manuals; Debian's package scdoc")
find_package(Python3 COMPONENTS Interpreter)

# written(FILE PROGRAM... COMMAND TEXT): the output of a shell's command, in which the programs may be run.
set(pages)
function(written file command)
  add_custom_command(OUTPUT ${generated}/${file}
    COMMAND ${CMAKE_COMMAND} -E env LANEMQ_BIN=${CMAKE_RUNTIME_OUTPUT_DIRECTORY} PYTHONDONTWRITEBYTECODE=1
            sh -c "set -e; ${command} > ${generated}/${file}.new; mv ${generated}/${file}.new ${generated}/${file}"
    DEPENDS ${ARGN} VERBATIM)
endfunction()

foreach(shell bash zsh fish)
  written(completion.${shell} "$<TARGET_FILE:lanemq> completion ${shell}" lanemq)
endforeach()
install(FILES ${generated}/completion.bash DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions RENAME lanemq COMPONENT cli)
install(FILES ${generated}/completion.zsh DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/vendor-completions RENAME _lanemq COMPONENT cli)
install(FILES ${generated}/completion.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d RENAME lanemq.fish COMPONENT cli)
set(texts ${generated}/completion.bash ${generated}/completion.zsh ${generated}/completion.fish)

# manual(COMPONENT PAGE.SECTION PROGRAM...)
function(manual component page)
  string(REGEX MATCH "[0-9]$" section ${page})
  set(script ${CMAKE_CURRENT_SOURCE_DIR}/man/manual.py)
  # Compressed as Debian has it: the same bytes each time.
  written(${page}.gz "${Python3_EXECUTABLE} ${script} ${page} > ${page}; gzip -9nc ${page}"
    ${ARGN} ${script} ${PROJECT_SOURCE_DIR}/scripts/lib/help.py ${CMAKE_CURRENT_SOURCE_DIR}/man/${page}.scd)
  install_file(${component} ${CMAKE_INSTALL_MANDIR}/man${section} ${generated}/${page}.gz)
  set(texts ${texts} ${generated}/${page}.gz PARENT_SCOPE)
endfunction()

if(SCDOC AND Python3_FOUND)
  manual(broker lanemq-broker.8 lanemq-broker)
  manual(worker lanemq-worker.8 lanemq-worker)
  manual(gateway lanemq-gateway.8 lanemq-gateway)
  manual(cli lanemq.1 lanemq)
  manual(cli lanemq.toml.5 lanemq-broker lanemq-worker lanemq-gateway)
else()
  message(STATUS "No manuals: they need scdoc and python3")
endif()
