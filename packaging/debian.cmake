# The Debian packages: one for each component.
set(LANEMQ_PACKAGE_RELEASE 1 CACHE STRING "The number behind the version of the Debian packages")
# As the programs say it. What is built between two releases has the commit's time in it: a later one upgrades an earlier one.
execute_process(COMMAND ${PROJECT_SOURCE_DIR}/scripts/version OUTPUT_VARIABLE version OUTPUT_STRIP_TRAILING_WHITESPACE
                COMMAND_ERROR_IS_FATAL ANY)
set(contact "LaneMQ maintainers <maintainers@lanemq.org>")
set(package_broker lanemq-broker)
set(package_worker lanemq-worker)
set(package_gateway lanemq-gateway)
set(package_cli lanemq)
set(package_dev liblanemq-dev)
set(components broker worker gateway cli dev)

# ---- what each package has besides ------------------------------------------------------------------------

string(TIMESTAMP changelog_date "%a, %d %b %Y %H:%M:%S +0000" UTC)
foreach(component ${components})
  set(package ${package_${component}})
  set(folder ${CMAKE_INSTALL_DATADIR}/doc/${package})
  configure_file(debian/changelog.in ${generated}/${package}/changelog.Debian @ONLY)
  add_custom_command(OUTPUT ${generated}/${package}/changelog.Debian.gz ${generated}/${package}/changelog.gz
    COMMAND gzip -9nkf changelog.Debian
    COMMAND sh -c "gzip -9nc ${PROJECT_SOURCE_DIR}/CHANGELOG.md > changelog.gz"
    DEPENDS ${generated}/${package}/changelog.Debian ${PROJECT_SOURCE_DIR}/CHANGELOG.md
    WORKING_DIRECTORY ${generated}/${package} VERBATIM)
  list(APPEND texts ${generated}/${package}/changelog.Debian.gz ${generated}/${package}/changelog.gz)
  install_file(${component} ${folder} ${generated}/${package}/changelog.Debian.gz ${generated}/${package}/changelog.gz debian/copyright)
endforeach()
add_custom_target(lanemq_texts ALL DEPENDS ${texts})
set_property(GLOBAL PROPERTY LANEMQ_INSTALLED_TEXTS ${texts})

# scripts_of(COMPONENT KIND): the maintainer scripts debian/KIND.*, in which these are replaced.
function(scripts_of component kind)
  set(unit lanemq-${component}.service)
  set(files)
  foreach(when postinst prerm postrm)
    set(file ${generated}/${package_${component}}/${when})
    configure_file(debian/${kind}.${when} ${file} @ONLY FILE_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
    list(APPEND files ${file})
  endforeach()
  string(TOUPPER ${component} upper)
  file(WRITE ${generated}/${package_${component}}/conffiles "/etc/lanemq/${ARGN}\n")
  set(CPACK_DEBIAN_${upper}_PACKAGE_CONTROL_EXTRA ${files} ${generated}/${package_${component}}/conffiles PARENT_SCOPE)
endfunction()
set(state "/var/lib/lanemq /var/lib/private/lanemq")
scripts_of(broker service broker.toml)
set(state "/var/lib/lanemq-gateway /var/lib/private/lanemq-gateway")
scripts_of(gateway service gateway.toml)
scripts_of(worker template workers/echo.toml)

# ---- control fields ---------------------------------------------------------------------------------------

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME lanemq)
set(CPACK_PACKAGE_VERSION ${version})
set(CPACK_PACKAGE_CONTACT "${contact}")
set(CPACK_PACKAGE_DIRECTORY ${PROJECT_SOURCE_DIR}/build/packages)
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "")
set(CPACK_COMPONENTS_ALL ${components})
set(CPACK_COMPONENTS_GROUPING IGNORE)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_STRIP_FILES ON)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_RELEASE ${LANEMQ_PACKAGE_RELEASE})
set(CPACK_DEBIAN_PACKAGE_SECTION net)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
foreach(component ${components})
  string(TOUPPER ${component} upper)
  set(CPACK_DEBIAN_${upper}_PACKAGE_NAME ${package_${component}})
endforeach()

set(CPACK_DEBIAN_BROKER_PACKAGE_RECOMMENDS lanemq)
set(CPACK_DEBIAN_BROKER_PACKAGE_SUGGESTS "lanemq-worker, lanemq-gateway")
set(CPACK_DEBIAN_WORKER_PACKAGE_RECOMMENDS ca-certificates)
set(CPACK_DEBIAN_DEV_PACKAGE_DEPENDS libzmq3-dev)
set(CPACK_DEBIAN_DEV_PACKAGE_SHLIBDEPS OFF)
set(CPACK_DEBIAN_DEV_PACKAGE_SECTION libdevel)

# describe(COMPONENT SUMMARY TEXT): of all packages the same first paragraph.
function(describe component summary text)
  set(CPACK_DEBIAN_${component}_DESCRIPTION "${summary}
LaneMQ queues requests to AI models in lanes by priority, shares the
upstreams' limits among all that ask, and keeps on disk what it accepted.

${text}" PARENT_SCOPE)
endfunction()
describe(BROKER "job broker for AI requests: lanes, fairness and shared quotas"
"This package has the broker, which clients and workers connect to, as a
service of systemd.")
describe(WORKER "workers of the job broker LaneMQ"
"This package has the worker, which calls the APIs of models, as services
of systemd: one for each file in /etc/lanemq/workers.")
describe(GATEWAY "OpenAI-compatible HTTP front door of the job broker LaneMQ"
"This package has the gateway, which serves the APIs of OpenAI and
Anthropic over HTTP, as a service of systemd.")
describe(CLI "command line of the job broker LaneMQ"
"This package has the command lanemq: it submits jobs, runs files of them,
and shows and changes what the broker does.")
describe(DEV "C++ library for clients and workers of the job broker LaneMQ"
"This package has the headers and the static library.")

include(CPack)
