# attend::core_tiles: filled in with the tile kernels.
add_library(attend_core_tiles INTERFACE)
add_library(attend::core_tiles ALIAS attend_core_tiles)
