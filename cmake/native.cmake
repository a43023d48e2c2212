# What `cmake --install` puts in place: liblamina (shared and static), lamina.h and what it includes,
# lamina.pc, the CMake package and the command `lamina`. The Python build does not come here.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

add_library(lamina SHARED ${LAMINA_OBJECTS})
target_include_directories(lamina PUBLIC $<BUILD_INTERFACE:${CMAKE_CURRENT_SOURCE_DIR}/include>
  $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
target_link_libraries(lamina PRIVATE $<BUILD_INTERFACE:lamina_flags> ${LAMINA_LIBRARIES})
file(GLOB headers CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/include/lamina*.h)
set_target_properties(lamina PROPERTIES VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR}
  PUBLIC_HEADER "${headers}")
if(NOT LAMINA_SANITIZE AND NOT APPLE)
  target_link_options(lamina PRIVATE -Wl,--no-undefined)
endif()
add_library(lamina::lamina ALIAS lamina)

set(installed lamina lamina_static)
if(EXISTS ${CMAKE_CURRENT_SOURCE_DIR}/src/cmd/main.c)
  # Linked with the static library: the command runs wherever it is copied to, if SQLite's library is there.
  add_executable(lamina_command src/cmd/main.c)
  target_include_directories(lamina_command PRIVATE ${CMAKE_CURRENT_SOURCE_DIR}/src)
  target_link_libraries(lamina_command PRIVATE lamina_flags lamina_static)
  set_target_properties(lamina_command PROPERTIES OUTPUT_NAME lamina)
  install(TARGETS lamina_command RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()

install(TARGETS ${installed} EXPORT lamina-targets
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
  PUBLIC_HEADER DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})

set(package ${CMAKE_INSTALL_LIBDIR}/cmake/lamina)
install(EXPORT lamina-targets NAMESPACE lamina:: DESTINATION ${package})
configure_package_config_file(cmake/lamina-config.cmake.in lamina-config.cmake INSTALL_DESTINATION ${package})
write_basic_package_version_file(lamina-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/lamina-config.cmake
  ${CMAKE_CURRENT_BINARY_DIR}/lamina-config-version.cmake DESTINATION ${package})

# Relative to the .pc file, so that an installed prefix may be moved.
file(RELATIVE_PATH LAMINA_PC_PREFIX /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
list(JOIN LAMINA_LIBRARIES " -l" LAMINA_PC_PRIVATE)
configure_file(cmake/lamina.pc.in lamina.pc @ONLY)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/lamina.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
