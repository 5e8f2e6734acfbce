# Units of systemd, and the configuration files that they read.

# Under /usr the files are in /etc; in any other tree they stay inside of it.
if(CMAKE_INSTALL_PREFIX STREQUAL "/usr")
  set(settings_folder ${CMAKE_INSTALL_FULL_SYSCONFDIR}/lanemq)
else()
  set(settings_folder ${CMAKE_INSTALL_SYSCONFDIR}/lanemq)
endif()

# unit(COMPONENT FILE): a unit, with the places of this installation.
function(unit component file)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/systemd/${file})
  file(READ systemd/${file} text)
  string(REPLACE "/usr/bin/" "${CMAKE_INSTALL_FULL_BINDIR}/" text "${text}")
  string(REPLACE "/etc/lanemq" "${CMAKE_INSTALL_FULL_SYSCONFDIR}/lanemq" text "${text}")
  file(CONFIGURE OUTPUT ${generated}/${file} CONTENT "${text}" @ONLY)
  install_file(${component} lib/systemd/system ${generated}/${file})
endfunction()

# settings(COMPONENT PROGRAM FILE ADDED...): all settings, each as a comment with its default, and files behind them.
function(settings component program file)
  cmake_path(GET file PARENT_PATH folder)
  cmake_path(GET file FILENAME name)
  written(${name} "$<TARGET_FILE:${program}> --print-config | sed 's/^[^#]/#&/' | cat - ${ARGN}" ${program} ${ARGN})
  install_file(${component} ${settings_folder}/${folder} ${generated}/${name})
  set(texts ${texts} ${generated}/${name} PARENT_SCOPE)
endfunction()

unit(broker lanemq-broker.service)
unit(worker lanemq-worker@.service)
unit(gateway lanemq-gateway.service)
settings(broker lanemq-broker broker.toml)
settings(worker lanemq-worker workers/echo.toml ${CMAKE_CURRENT_SOURCE_DIR}/etc/echo.toml)
settings(gateway lanemq-gateway gateway.toml)
