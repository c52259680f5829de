# Compilers run under ccache where it is installed, in builds of etir itself: what another build, another clone or
# another work tree has compiled with the same flags is not compiled again.
#
# CCACHE_BASEDIR makes paths below the source folder relative, and without the folder in the hash a clone elsewhere finds
# the same results. They are set for the compiler alone: the user's own configuration stays as it is.
option(ETIR_CCACHE "Compile through ccache where it is installed" ON)

if(NOT ETIR_CCACHE OR NOT ETIR_TOP_LEVEL OR DEFINED CMAKE_CXX_COMPILER_LAUNCHER)
  return()
endif()
find_program(ETIR_CCACHE_PROGRAM ccache DOC "The compiler cache")
mark_as_advanced(ETIR_CCACHE_PROGRAM)
if(NOT ETIR_CCACHE_PROGRAM)
  return()
endif()
set(settings CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} CCACHE_NOHASHDIR=1)
if(CMAKE_HOST_WIN32)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env ${settings} ${ETIR_CCACHE_PROGRAM})
else()
  # Not CMake's own `env`: in pip's builds CMake is somewhere else each time, and with it every command line.
  find_program(ETIR_ENV_PROGRAM env)
  mark_as_advanced(ETIR_ENV_PROGRAM)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${ETIR_ENV_PROGRAM} ${settings} ${ETIR_CCACHE_PROGRAM})
endif()
set(CMAKE_C_COMPILER_LAUNCHER ${CMAKE_CXX_COMPILER_LAUNCHER})
