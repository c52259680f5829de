# Cortex-M4 with its floating point unit; the linker script is that of the emulated board MPS2 AN386.
set(ETIR_MCPU cortex-m4)
set(ETIR_FLOAT_FLAGS "-mfloat-abi=hard -mfpu=fpv4-sp-d16")
set(ETIR_LINKER_SCRIPT mps2_an386.ld)
include(${CMAKE_CURRENT_LIST_DIR}/cortex-m.cmake)
