# liblanemq: one archive with all that the client and the worker library consist of, so that a program links
# one file beside libzmq. Targets: lanemq::client and lanemq::worker, as in this tree.
include(CMakePackageConfigHelpers)

# Without times and users in the archive: the same objects give the same bytes.
set(CMAKE_CXX_ARCHIVE_CREATE "<CMAKE_AR> qcD <TARGET> <LINK_FLAGS> <OBJECTS>")
set(CMAKE_CXX_ARCHIVE_FINISH "<CMAKE_RANLIB> -D <TARGET>")
add_library(lanemq_archive STATIC)
set_target_properties(lanemq_archive PROPERTIES OUTPUT_NAME lanemq EXPORT_NAME archive)
foreach(part lanemq_client lanemq_worker lanemq_protocol lanemq_ids lanemq_zmq lanemq_log_line lanemq_json lanemq_trace_context lanemq_version_stamped)
  target_sources(lanemq_archive PRIVATE $<TARGET_OBJECTS:${part}>)
endforeach()
target_compile_features(lanemq_archive INTERFACE cxx_std_20)
target_include_directories(lanemq_archive INTERFACE $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
target_link_libraries(lanemq_archive PUBLIC PkgConfig::zmq Threads::Threads)
foreach(side client worker)
  add_library(lanemq_installed_${side} INTERFACE)
  set_target_properties(lanemq_installed_${side} PROPERTIES EXPORT_NAME ${side})
  target_link_libraries(lanemq_installed_${side} INTERFACE lanemq_archive)
endforeach()
install(TARGETS lanemq_archive lanemq_installed_client lanemq_installed_worker EXPORT lanemq ARCHIVE COMPONENT dev)

# The headers of the contract, and those that they include: none of another project.
install_file(dev ${CMAKE_INSTALL_INCLUDEDIR}/lanemq
  ${PROJECT_SOURCE_DIR}/client/library/include/lanemq/client.hpp
  ${PROJECT_SOURCE_DIR}/client/library/include/lanemq/loop_client.hpp
  ${PROJECT_SOURCE_DIR}/client/library/include/lanemq/reply.hpp
  ${PROJECT_SOURCE_DIR}/broker/include/lanemq/broker_plugin.h
  ${PROJECT_SOURCE_DIR}/common/plugin/include/lanemq/plugin.h
  ${PROJECT_SOURCE_DIR}/worker/include/lanemq/handler_plugin.h
  ${PROJECT_SOURCE_DIR}/worker/include/lanemq/worker.hpp
  ${PROJECT_SOURCE_DIR}/common/protocol/include/lanemq/blob.hpp
  ${PROJECT_SOURCE_DIR}/common/protocol/include/lanemq/curve_keys.hpp
  ${PROJECT_SOURCE_DIR}/common/protocol/include/lanemq/error_table.hpp
  ${PROJECT_SOURCE_DIR}/common/protocol/include/lanemq/limits.hpp
  ${PROJECT_SOURCE_DIR}/common/protocol/include/lanemq/messages.hpp
  ${PROJECT_BINARY_DIR}/common/generated/lanemq/version.hpp)

set(config_folder ${CMAKE_INSTALL_LIBDIR}/cmake/lanemq)
install(EXPORT lanemq NAMESPACE lanemq:: FILE lanemqTargets.cmake DESTINATION ${config_folder} COMPONENT dev)
configure_package_config_file(lanemqConfig.cmake.in ${generated}/lanemqConfig.cmake INSTALL_DESTINATION ${config_folder})
# Before 1.0 a minor version may change the contract.
write_basic_package_version_file(${generated}/lanemqConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install_file(dev ${config_folder} ${generated}/lanemqConfig.cmake ${generated}/lanemqConfigVersion.cmake)

# Found from where the file lies, so that the tree can be moved.
file(RELATIVE_PATH prefix_from_pc ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
configure_file(lanemq.pc.in ${generated}/lanemq.pc @ONLY)
install_file(dev ${CMAKE_INSTALL_LIBDIR}/pkgconfig ${generated}/lanemq.pc)
