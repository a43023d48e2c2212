# The command `lamina`, and what goes beside it: the manual page and the completions for shells. The command
# prints these itself, so the build runs it. Where it is built for another machine, LAMINA_COMMAND may name
# one that runs here; without one, neither page nor completions are installed.
include(GNUInstallDirs)

# Linked with the static library: the command runs wherever it is copied to.
add_executable(lamina_command src/cmd/main.c)
target_include_directories(lamina_command PRIVATE ${CMAKE_CURRENT_SOURCE_DIR}/src)
target_link_libraries(lamina_command PRIVATE lamina_flags lamina_static)
set_target_properties(lamina_command PROPERTIES OUTPUT_NAME lamina)
if(LAMINA_SANITIZE OR LAMINA_COVERAGE OR LAMINA_FUZZ)
  target_compile_definitions(lamina_command PRIVATE LAMINA_UNCONFINED)
endif()

set(LAMINA_COMMAND "" CACHE FILEPATH "A lamina that runs on this machine")
if(NOT LAMINA_COMMAND AND NOT CMAKE_CROSSCOMPILING)
  set(LAMINA_COMMAND lamina_command)
endif()

# A wheel has these files in its data, which is put beside the Python's own bin.
if(SKBUILD_DATA_DIR)
  set(CMAKE_INSTALL_DATADIR ${SKBUILD_DATA_DIR}/share)
  set(CMAKE_INSTALL_MANDIR ${SKBUILD_DATA_DIR}/share/man)
endif()

function(lamina_text file folder)
  set(made ${CMAKE_CURRENT_BINARY_DIR}/texts/${file})
  add_custom_command(OUTPUT ${made} COMMAND ${LAMINA_COMMAND} ${ARGN} > ${made} DEPENDS ${LAMINA_COMMAND}
    VERBATIM)
  set_property(DIRECTORY APPEND PROPERTY LAMINA_TEXTS ${made})
  install(FILES ${made} DESTINATION ${folder})
endfunction()

if(LAMINA_COMMAND)
  file(MAKE_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/texts)
  lamina_text(lamina.1 ${CMAKE_INSTALL_MANDIR}/man1 help --man)
  lamina_text(lamina ${CMAKE_INSTALL_DATADIR}/bash-completion/completions completion bash)
  lamina_text(_lamina ${CMAKE_INSTALL_DATADIR}/zsh/site-functions completion zsh)
  lamina_text(lamina.fish ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d completion fish)
  get_property(texts DIRECTORY PROPERTY LAMINA_TEXTS)
  add_custom_target(lamina_texts ALL DEPENDS ${texts} COMMENT "Printing the manual page and the completions")
endif()
