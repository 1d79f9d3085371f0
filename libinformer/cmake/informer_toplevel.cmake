# What we decide only in a build of our own; inside another project its owner does.

# Optimised, without asserts: Boost's own asserts double the time a document takes to parse.
if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
    set(CMAKE_BUILD_TYPE RelWithDebInfo CACHE STRING "" FORCE)
endif()
# Line tables are enough for a backtrace; full debug information of Asio's templates is most of an object file.
if(CMAKE_CXX_FLAGS_RELWITHDEBINFO STREQUAL "-O2 -g -DNDEBUG") # CMake's own: nobody has said otherwise
    set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O2 -g1 -DNDEBUG")
endif()

set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

if(NOT DEFINED CMAKE_CXX_COMPILER_LAUNCHER)
    find_program(INFORMER_CCACHE ccache)
    mark_as_advanced(INFORMER_CCACHE)
    if(INFORMER_CCACHE)
        # Without this sloppiness ccache refuses every compilation that uses a precompiled header. Locale: Python sets one for
        # what it starts, and then no object of ours would be found again.
        set(sloppiness pch_defines,time_macros,include_file_mtime,include_file_ctime,locale)
        set(CMAKE_CXX_COMPILER_LAUNCHER "${CMAKE_COMMAND}" -E env CCACHE_SLOPPINESS=${sloppiness} "${INFORMER_CCACHE}")
    endif()
endif()

find_program(INFORMER_MOLD mold)
mark_as_advanced(INFORMER_MOLD)
if(INFORMER_MOLD)
    add_link_options(-fuse-ld=mold)
endif()

# Sanitizers need the whole program, so they are set for the directory and not per target. -O1: at -O0 the tests crawl, at
# -O2 a unit with Asio takes two minutes and 2 GB.
if(INFORMER_SANITIZE) # instrumented code fools g++'s flow analysis
    add_compile_options(
        -Wno-array-bounds
        "$<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized;-Wno-format-truncation;-Wno-restrict;-Wno-stringop-overflow>")
endif()
if(INFORMER_SANITIZE STREQUAL "address")
    add_compile_options(-fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer -O1 -g1)
    add_compile_definitions(_GLIBCXX_ASSERTIONS)
    add_link_options(-fsanitize=address,undefined)
elseif(INFORMER_SANITIZE STREQUAL "fuzzer") # clang's: coverage, and what AddressSanitizer and UBSan see
    add_compile_options(-fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer -O1 -g1)
    add_compile_definitions(_GLIBCXX_ASSERTIONS)
    add_link_options(-fsanitize=address,undefined)
elseif(INFORMER_SANITIZE STREQUAL "thread")
    add_compile_options(-fsanitize=thread -fno-omit-frame-pointer -O1 -g1)
    add_compile_options($<$<CXX_COMPILER_ID:GNU>:-Wno-tsan>) # "atomic_thread_fence is not supported", 90 times per unit
    add_link_options(-fsanitize=thread)
elseif(INFORMER_SANITIZE)
    message(FATAL_ERROR "INFORMER_SANITIZE is '${INFORMER_SANITIZE}': use address, thread or fuzzer")
endif()
