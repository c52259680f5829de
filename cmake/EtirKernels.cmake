# The kernel table and the list of its sources, both made of the manifests by runtime/kernels/generate.py. Used by the
# runtime's own build and, installed, by projects with kernels of their own.
include_guard(GLOBAL)

# Where generate.py is: beside the kernels in the source tree, beside this file when installed.
if(EXISTS ${CMAKE_CURRENT_LIST_DIR}/../runtime/kernels/generate.py)
  get_filename_component(ETIR_GENERATE ${CMAKE_CURRENT_LIST_DIR}/../runtime/kernels/generate.py ABSOLUTE)
else()
  set(ETIR_GENERATE ${CMAKE_CURRENT_LIST_DIR}/generate.py)
endif()
if(EXISTS ${CMAKE_CURRENT_LIST_DIR}/isa_module.cc)
  set(ETIR_MODULE_SOURCE ${CMAKE_CURRENT_LIST_DIR}/isa_module.cc)
else()
  get_filename_component(ETIR_MODULE_SOURCE ${CMAKE_CURRENT_LIST_DIR}/../runtime/platform/isa_module.cc ABSOLUTE)
endif()

# etir_generate(OUTPUT ARGUMENT...): runs generate.py, which leaves an output alone that is right already.
function(etir_generate output)
  execute_process(COMMAND ${Python_EXECUTABLE} ${ETIR_GENERATE} ${output} ${ARGN} RESULT_VARIABLE failed)
  if(failed)
    message(FATAL_ERROR "the kernels cannot be generated (runtime/kernels/generate.py has said why)")
  endif()
endfunction()

# etir_kernel_sources(RESULT NAME ARGUMENT...): the sources of the kernels that generate.py's arguments select, and of
# their table, for a library NAME. Each is compiled for the element types that its operators need (ETIR_DTYPES).
#
# The kernels of a folder are compiled as one source that includes them: headers and templates that they share are then
# compiled once, which halves the time of a build. A selection compiles each source for its own types instead.
function(etir_kernel_sources result name)
  get_filename_component(kernels ${ETIR_GENERATE} DIRECTORY)
  set(folder ${CMAKE_CURRENT_BINARY_DIR}/${name})
  file(MAKE_DIRECTORY ${folder})
  # sources.txt, kernel_table.cc, and in generated kernels/FAMILY/NAME.gen.h, which FAMILY/NAME.cc includes.
  etir_generate(${folder} --build ${ARGN})
  file(STRINGS ${folder}/sources.txt lines)
  set(sources)
  set(families)
  foreach(line IN LISTS lines)
    string(REGEX MATCH "^(.*) (0x[0-9a-f]+u)$" matched "${line}")
    set(source ${CMAKE_MATCH_1})
    set(mask ${CMAKE_MATCH_2})
    if(IS_ABSOLUTE ${source})
      # A folder elsewhere.
      list(APPEND sources ${source})
      set_source_files_properties(${source} PROPERTIES COMPILE_DEFINITIONS ETIR_DTYPES=${mask})
      continue()
    endif()
    if(ETIR_DTYPES OR mask STREQUAL "0xffffffffu")
      set(mask)
    endif()
    get_filename_component(family ${source} DIRECTORY)
    if(ETIR_ONLY_OPS OR family STREQUAL "util")
      string(REGEX REPLACE "\\.cc$" "" family ${source})
    endif()
    list(APPEND families ${family})
    string(APPEND text_of_${family} "#include \"kernels/${source}\"\n")
    list(APPEND masks_of_${family} ${mask})
  endforeach()
  list(REMOVE_DUPLICATES families)
  foreach(family IN LISTS families)
    # Included by a path that is the same everywhere, for compiler caches.
    set(source ${folder}/${family}.cc)
    file(CONFIGURE OUTPUT ${source} CONTENT "${text_of_${family}}" @ONLY)
    list(APPEND sources ${source})
    if(masks_of_${family})
      list(REMOVE_DUPLICATES masks_of_${family})
      list(JOIN masks_of_${family} "|" mask)
      set_source_files_properties(${source} PROPERTIES COMPILE_DEFINITIONS "ETIR_DTYPES=(${mask})")
    endif()
  endforeach()
  set_source_files_properties(${sources} PROPERTIES INCLUDE_DIRECTORIES ${folder}/generated)
  set(${result} ${sources} ${folder}/kernel_table.cc PARENT_SCOPE)
endfunction()

# etir_add_library(NAME [FOLDERS FOLDER...] [SOURCES SOURCE...]): a shared library with kernels of your own, each folder
# with a kernels.json, or backends of your own, for `et-run --load-library` and etir.runtime.load_library. The rows of the
# kernels lie beside it in NAME.kernels.json, for the link check (`et-compile --load-library`).
function(etir_add_library name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "FOLDERS;SOURCES")
  set(sources ${arg_SOURCES})
  if(arg_FOLDERS)
    if(NOT Python_EXECUTABLE)
      find_package(Python 3.9 REQUIRED COMPONENTS Interpreter)
    endif()
    set(select)
    foreach(folder IN LISTS arg_FOLDERS)
      get_filename_component(folder "${folder}" ABSOLUTE)
      list(APPEND select --folder ${folder} --family ${folder})
      set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${folder}/kernels.json)
    endforeach()
    etir_kernel_sources(kernels ${name} ${select})
    # Those that are shared with etir's kernels are linked in.
    list(FILTER kernels EXCLUDE REGEX "/util/[a-z_]+\\.cc$")
    list(APPEND sources ${kernels} ${ETIR_MODULE_SOURCE})
  endif()
  add_library(${name} MODULE ${sources})
  # What the library calls of the core is linked in; it takes nothing from the program that loads it.
  target_link_libraries(${name} PRIVATE etir::kernels etir::core)
  target_compile_features(${name} PRIVATE cxx_std_17)
  target_compile_options(${name} PRIVATE -fvisibility=hidden -fno-math-errno -fno-trapping-math)
  set_target_properties(${name} PROPERTIES PREFIX "")
  if(arg_FOLDERS)
    set(rows ${CMAKE_CURRENT_BINARY_DIR}/${name}/kernels.json)
    etir_generate(${rows} --rows ${select})
    add_custom_command(TARGET ${name} POST_BUILD
      COMMAND ${CMAKE_COMMAND} -E copy_if_different ${rows} $<TARGET_FILE_DIR:${name}>/${name}.kernels.json VERBATIM)
  endif()
endfunction()

# etir_copy_kernels(TARGET): puts the kernels of further instruction sets beside a program, which looks for them there.
# Without them it runs the ones that are linked in.
function(etir_copy_kernels target)
  if(ETIR_KERNEL_MODULES)
    file(GLOB modules ${ETIR_KERNEL_MODULES}/etir_kernels_*.so)
  else()
    set(modules)
    foreach(isa IN LISTS ETIR_ISAS)
      list(APPEND modules $<TARGET_FILE:etir_kernels_${isa}>)
      add_dependencies(${target} etir_kernels_${isa})
    endforeach()
  endif()
  if(modules)
    add_custom_command(TARGET ${target} POST_BUILD
      COMMAND ${CMAKE_COMMAND} -E copy_if_different ${modules} $<TARGET_FILE_DIR:${target}> VERBATIM)
  endif()
endfunction()
