# What an installation has: headers, static libraries, the kernels of further instruction sets, and the CMake package that
# find_package(etir) reads. In the Python package all of it lies below etir/ (`python -m etir --cmake-dir`).
include(CMakePackageConfigHelpers)

install(TARGETS ${etir_libraries} EXPORT etir-targets
        ARCHIVE DESTINATION ${ETIR_INSTALL_LIB} LIBRARY DESTINATION ${ETIR_INSTALL_LIB}
        RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
if(isa_targets)
  install(TARGETS ${isa_targets} LIBRARY DESTINATION ${ETIR_INSTALL_KERNELS})
endif()
# What applications, kernels and backends include; tests and tools have headers of their own.
foreach(folder core devtools executor platform backends kernels/util capi llm)
  install(DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR}/${folder}/ DESTINATION ${ETIR_INSTALL_INCLUDE}/${folder}
          FILES_MATCHING PATTERN "*.h" PATTERN "*.def")
endforeach()
install(FILES ${CMAKE_CURRENT_SOURCE_DIR}/kernels/kernel.h DESTINATION ${ETIR_INSTALL_INCLUDE}/kernels)

configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/etir-config.cmake.in ${PROJECT_BINARY_DIR}/etir-config.cmake
  INSTALL_DESTINATION ${ETIR_INSTALL_CMAKE} PATH_VARS ETIR_INSTALL_KERNELS)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/etir-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/etir-config.cmake ${PROJECT_BINARY_DIR}/etir-config-version.cmake
              ${PROJECT_SOURCE_DIR}/cmake/EtirKernels.cmake ${ETIR_GENERATE}
              ${CMAKE_CURRENT_SOURCE_DIR}/platform/isa_module.cc
        DESTINATION ${ETIR_INSTALL_CMAKE})
install(EXPORT etir-targets NAMESPACE etir:: DESTINATION ${ETIR_INSTALL_CMAKE})
