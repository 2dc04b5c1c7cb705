# Language level, warnings, hardening and sanitizers, for every target of the project.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)

find_program(CCACHE_PROGRAM ccache)
mark_as_advanced(CCACHE_PROGRAM)
if(CCACHE_PROGRAM AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # Clones in different folders share what the cache holds.
  set(CMAKE_CXX_COMPILER_LAUNCHER
    ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} CCACHE_NOHASHDIR=1 ${CCACHE_PROGRAM})
endif()

# Warnings are for our own code: attend_add_* link this, generated code does not.
add_library(attend_warnings INTERFACE)
target_compile_options(attend_warnings INTERFACE -Wall -Wextra -Werror -Wshadow -Wnon-virtual-dtor -Wimplicit-fallthrough)

# A program that takes bytes from strangers: bounds-checked libc and libstdc++, stack protector, read-only relocations.
add_compile_options(-fstack-protector-strong -D_GLIBCXX_ASSERTIONS)
add_link_options(-Wl,-z,relro,-z,now,-z,noexecstack)
if(NOT ATTEND_SANITIZERS AND CMAKE_BUILD_TYPE STREQUAL "Release")
  add_compile_options(-U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2)
endif()

if(ATTEND_SANITIZERS)
  add_compile_options(-fsanitize=${ATTEND_SANITIZERS} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${ATTEND_SANITIZERS})
  # A fifth of the time that compiling takes. The address sanitizer reports what is read through null by itself, and of a
  # class that is not the one it was made as whatever lies outside of it.
  if(ATTEND_SANITIZERS MATCHES "undefined")
    add_compile_options(-fno-sanitize=null,vptr)
  endif()
endif()

if(ATTEND_LIBFUZZER)
  # Every function's coverage counts; names of templates with constraints as GCC 12, which built Debian's packages, has them.
  add_compile_options(-fsanitize=fuzzer-no-link -fclang-abi-compat=17)
  add_link_options(-fsanitize=fuzzer-no-link)
endif()
