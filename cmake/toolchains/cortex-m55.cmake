# Cortex-M55; the linker script is that of the emulated board MPS3 AN547.
set(ETIR_MCPU cortex-m55)
set(ETIR_FLOAT_FLAGS "-mfloat-abi=hard")
set(ETIR_LINKER_SCRIPT mps3_an547.ld)
include(${CMAKE_CURRENT_LIST_DIR}/cortex-m.cmake)
