# lockstep_add_steps(TARGET FILE... TARGETS T... [STATIC] [PUBLIC]
#                    [OPTIONS OPTION...] [COMPILE_OPTIONS OPTION...])
#
# Steps built ahead of time as sources of TARGET. At build time `lockstep build` makes NAME.h and
# NAME.c of every FILE, anew when the file or one that it imports has changed; TARGET compiles the C
# file, can include the header, and is linked with Lockstep::runtime.
#
#   FILE             adamw.step, adamw.step:adamw for one step of it, or std/optim:adamw; NAME is the
#                    step's name where one is given, else the file's
#   TARGETS          as for `lockstep build`: cpu sm_90 compute_90 gfx90a
#   STATIC           link Lockstep::runtime_static
#   PUBLIC           the header is part of TARGET's interface: what links TARGET finds it, too
#   OPTIONS          further options for `lockstep build`, such as -D beta1=0.95 or -I steps, which is
#                    run in CMAKE_CURRENT_SOURCE_DIR
#   COMPILE_OPTIONS  for the C file, instead of those of LOCKSTEP_COMPILE_OPTIONS, or where that is not
#                    set the best for target cpu: -O3 -march=native -fno-math-errno
#                    -fno-trapping-math. They change its speed and no bit of a result.
#
# Call it in the directory that made TARGET. LOCKSTEP_COMMAND names the command to run when
# cross-compiling.

# What the C file is compiled with: `given`, or the default.
function(_lockstep_options variable is_given given)
  set(options "${given}")
  if(CMAKE_C_COMPILER_ID MATCHES "GNU|Clang" OR CMAKE_CXX_COMPILER_ID MATCHES "GNU|Clang")
    if(NOT is_given)
      set(options -O3 -fno-math-errno -fno-trapping-math)
      if(NOT CMAKE_CROSSCOMPILING)
        list(APPEND options -march=native)
      endif()
      # where a debugger finds locals takes gcc a third of its time with -g; lines it knows anyway
      if("${CMAKE_C_COMPILER_ID}${CMAKE_CXX_COMPILER_ID}" MATCHES "^(GNU)+$")
        list(APPEND options -fno-var-tracking)
      endif()
    endif()
    # for projects that have warnings as errors, or fast maths, which the text refuses
    list(PREPEND options -w -fno-fast-math)
  endif()
  set(${variable} "${options}" PARENT_SCOPE)
endfunction()

# "dir/adamw.step:adamw" in its parts, and the name of what comes of it.
function(_lockstep_split word path name)
  set(file "${word}")
  set(step "")
  if(NOT EXISTS "${CMAKE_CURRENT_SOURCE_DIR}/${word}" AND word MATCHES "^(.+):([A-Za-z_][A-Za-z_0-9]*)$")
    set(file "${CMAKE_MATCH_1}")
    set(step "${CMAKE_MATCH_2}")
  endif()
  set(stem "${step}")
  if(NOT step)
    get_filename_component(stem "${file}" NAME_WLE)
  endif()
  set(${path} "${file}" PARENT_SCOPE)
  set(${name} "${stem}" PARENT_SCOPE)
endfunction()

function(lockstep_add_steps target)
  cmake_parse_arguments(PARSE_ARGV 1 ARG "STATIC;PUBLIC" "" "TARGETS;OPTIONS;COMPILE_OPTIONS")
  if(NOT TARGET ${target})
    message(FATAL_ERROR "lockstep_add_steps: there is no target ${target}; add it before")
  endif()
  if(NOT ARG_UNPARSED_ARGUMENTS OR NOT ARG_TARGETS)
    message(FATAL_ERROR "lockstep_add_steps(${target} FILE... TARGETS T...): name the files and what to "
                        "build them for, as in lockstep_add_steps(${target} adamw.step TARGETS sm_90 cpu)")
  endif()
  get_target_property(source_dir ${target} SOURCE_DIR)
  get_target_property(type ${target} TYPE)
  if(NOT source_dir STREQUAL CMAKE_CURRENT_SOURCE_DIR OR type STREQUAL "INTERFACE_LIBRARY")
    message(FATAL_ERROR "lockstep_add_steps: ${target} takes no sources here; call it in ${source_dir}, "
                        "on an executable or a library that is compiled")
  endif()
  get_property(languages GLOBAL PROPERTY ENABLED_LANGUAGES)
  if(NOT "C" IN_LIST languages AND NOT "CXX" IN_LIST languages)
    message(FATAL_ERROR "lockstep_add_steps: enable C or C++, as in project(... LANGUAGES C)")
  endif()
  set(is_given OFF)
  if(DEFINED ARG_COMPILE_OPTIONS OR "COMPILE_OPTIONS" IN_LIST ARG_KEYWORDS_MISSING_VALUES)
    set(is_given ON)
  elseif(DEFINED LOCKSTEP_COMPILE_OPTIONS)
    set(is_given ON)
    set(ARG_COMPILE_OPTIONS "${LOCKSTEP_COMPILE_OPTIONS}")
  endif()
  _lockstep_options(compile_options ${is_given} "${ARG_COMPILE_OPTIONS}")
  set(command Lockstep::command)
  if(LOCKSTEP_COMMAND)
    set(command "${LOCKSTEP_COMMAND}")
  endif()
  string(REPLACE ";" "," targets "${ARG_TARGETS}")
  set(folder "${CMAKE_CURRENT_BINARY_DIR}/lockstep/${target}")

  foreach(word IN LISTS ARG_UNPARSED_ARGUMENTS)
    _lockstep_split("${word}" path name)
    set(input "${word}")
    set(depends "")
    set(depfile "") # a file of the library stands in the command
    if(NOT path MATCHES "^std/" OR EXISTS "${CMAKE_CURRENT_SOURCE_DIR}/${path}")
      set(full "${path}") # of a source, else of what is generated
      if(NOT IS_ABSOLUTE "${path}")
        set(full "${CMAKE_CURRENT_BINARY_DIR}/${path}")
        if(EXISTS "${CMAKE_CURRENT_SOURCE_DIR}/${path}")
          set(full "${CMAKE_CURRENT_SOURCE_DIR}/${path}")
        endif()
      endif()
      get_source_file_property(generated "${full}" GENERATED)
      if(NOT EXISTS "${full}" AND NOT generated)
        message(FATAL_ERROR "lockstep_add_steps(${target}): there is no file ${path} in "
                            "${CMAKE_CURRENT_SOURCE_DIR}")
      endif()
      if(NOT EXISTS "${CMAKE_CURRENT_SOURCE_DIR}/${path}")
        string(REPLACE "${path}" "${full}" input "${word}")
      endif()
      set(depends "${full}")
      set(depfile DEPFILE "${folder}/${name}.d")
    endif()
    add_custom_command(OUTPUT "${folder}/${name}.c" "${folder}/${name}.h"
      COMMAND ${command} build "${input}" --name "${name}" --targets "${targets}" -o "${folder}"
              --depfile "${folder}/${name}.d" ${ARG_OPTIONS}
      DEPENDS ${depends} ${command}
      ${depfile} WORKING_DIRECTORY "${CMAKE_CURRENT_SOURCE_DIR}"
      COMMENT "Building ${word} ahead of time for ${targets}" VERBATIM)
    target_sources(${target} PRIVATE "${folder}/${name}.c" "${folder}/${name}.h")
    set_source_files_properties("${folder}/${name}.c" PROPERTIES COMPILE_OPTIONS "${compile_options}"
                                SKIP_PRECOMPILE_HEADERS ON SKIP_UNITY_BUILD_INCLUSION ON)
    if(NOT "C" IN_LIST languages)
      set_source_files_properties("${folder}/${name}.c" PROPERTIES LANGUAGE CXX)
    endif()
  endforeach()

  # Through the properties, since target_link_libraries allows a target one of its two signatures only.
  set(runtime Lockstep::runtime)
  if(ARG_STATIC)
    set(runtime Lockstep::runtime_static)
  endif()
  set_property(TARGET ${target} APPEND PROPERTY LINK_LIBRARIES ${runtime})
  set_property(TARGET ${target} APPEND PROPERTY INCLUDE_DIRECTORIES "${folder}")
  if(ARG_PUBLIC)
    set_property(TARGET ${target} APPEND PROPERTY INTERFACE_LINK_LIBRARIES ${runtime})
    set_property(TARGET ${target} APPEND PROPERTY INTERFACE_INCLUDE_DIRECTORIES $<BUILD_INTERFACE:${folder}>)
  elseif(type STREQUAL "STATIC_LIBRARY" OR type STREQUAL "OBJECT_LIBRARY")
    set_property(TARGET ${target} APPEND PROPERTY INTERFACE_LINK_LIBRARIES $<LINK_ONLY:${runtime}>)
  endif()
endfunction()
