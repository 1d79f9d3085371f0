# How our targets are made. A room is a folder of libinformer/src; see docs/design for what lives where.

# informer_settings(<target>): language level, warnings and definitions of everything that is ours.
function(informer_settings target)
    target_compile_features(${target} PUBLIC cxx_std_20)
    set_target_properties(${target} PROPERTIES CXX_STANDARD 20 CXX_STANDARD_REQUIRED ON CXX_EXTENSIONS OFF)
    # Sources have names of their own in unnamed namespaces: together in one unit they do not compile.
    set_target_properties(${target} PROPERTIES UNITY_BUILD OFF)
    # No -Wnull-dereference: false positives from Asio at -O1 and above.
    target_compile_options(${target} PRIVATE -Wall -Wextra -Wpedantic -Wshadow -Wconversion
                                             $<$<BOOL:${INFORMER_WERROR}>:-Werror>)
    if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
        # False positive: g++ inlines only half of the allocation functions of Asio's coroutine frames.
        target_compile_options(${target} PRIVATE -Wno-mismatched-new-delete)
    endif()
    # Private on purpose: a user's program may still want Asio's deprecated names.
    target_compile_definitions(${target} PRIVATE BOOST_ASIO_NO_DEPRECATED BOOST_PROCESS_USE_STD_FS)
    if(CMAKE_CXX_COMPILER_ID MATCHES "Clang" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 17)
        # Older clang keeps a thread_local's address across a suspension; Asio's frame cache then belongs to another thread.
        target_compile_definitions(${target} PUBLIC BOOST_ASIO_DISABLE_AWAITABLE_FRAME_RECYCLING)
    endif()
endfunction()

# informer_sources(<variable> <room>): the sources of a room; none if the room does not exist yet.
function(informer_sources variable room)
    file(GLOB sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/libinformer/src/${room}/*.cpp")
    set(${variable} "${sources}" PARENT_SCOPE)
endfunction()

# informer_usage(<target> <scope>): where the headers are and what they need.
function(informer_usage target scope)
    target_include_directories(${target} ${scope} "$<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/libinformer/include>"
                                                  "$<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>")
    target_link_libraries(${target} ${scope} Boost::headers Boost::json Boost::url Threads::Threads)
endfunction()

# informer_internals(<target>): may include from libinformer/src. Our rooms and tests; no program.
function(informer_internals target)
    target_include_directories(${target} PRIVATE "${PROJECT_SOURCE_DIR}/libinformer/src")
endfunction()

# informer_room(<room> [<library>...]): the objects of a room as informer_<room>. Unit tests link rooms one by one, so that a
# room that does not compile today stops only those above it. No precompiled header here: it saves one second of twenty (what
# costs is instantiation), hides missing includes, and ties ccache's keys to one build folder.
function(informer_room room)
    set(target informer_${room})
    informer_sources(sources ${room})
    if(NOT sources)
        add_library(${target} INTERFACE)
        informer_usage(${target} INTERFACE)
        return()
    endif()
    add_library(${target} OBJECT ${sources})
    informer_settings(${target})
    informer_internals(${target})
    informer_usage(${target} PUBLIC)
    target_link_libraries(${target} PUBLIC ${ARGN})
endfunction()

# informer_library(<name> EXPORT <...> SOURCES ... LINK ... [PRIVATE ...]): an installed static library with the alias informer::<...>.
# Each is a component of that name to `cmake --install`, with targets of its own, so that one can be built and installed without the others.
# Without sources it is an interface, so that users of it can be written before it.
function(informer_library name)
    cmake_parse_arguments(arg "" "EXPORT" "SOURCES;LINK;PRIVATE" ${ARGN})
    if(arg_SOURCES)
        add_library(${name} STATIC ${arg_SOURCES})
        set(scope PUBLIC)
        informer_settings(${name})
        informer_internals(${name})
        target_link_libraries(${name} PRIVATE ${arg_PRIVATE})
    else()
        add_library(${name} INTERFACE)
        set(scope INTERFACE)
    endif()
    informer_usage(${name} ${scope})
    target_link_libraries(${name} ${scope} ${arg_LINK})
    set_target_properties(${name} PROPERTIES EXPORT_NAME ${arg_EXPORT})
    add_library(informer::${arg_EXPORT} ALIAS ${name})
    if(INFORMER_INSTALL)
        install(TARGETS ${name} EXPORT informer-${arg_EXPORT} COMPONENT ${arg_EXPORT})
        install(EXPORT informer-${arg_EXPORT} NAMESPACE informer:: DESTINATION "${CMAKE_INSTALL_LIBDIR}/cmake/informer"
                FILE informer-${arg_EXPORT}-targets.cmake COMPONENT ${arg_EXPORT})
    endif()
endfunction()
