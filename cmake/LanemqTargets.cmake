# What every target of the project shares: the language level, the warnings and the sanitizers.
add_library(lanemq_build INTERFACE)
target_compile_features(lanemq_build INTERFACE cxx_std_20)
target_compile_options(lanemq_build INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion -Wnon-virtual-dtor -Woverloaded-virtual
  -fno-omit-frame-pointer -fstack-protector-strong)
if(CMAKE_UNITY_BUILD)
  # A class may use what is private to its file; joined files are not told from headers here.
  target_compile_options(lanemq_build INTERFACE -Wno-subobject-linkage)
endif()
target_compile_definitions(lanemq_build INTERFACE _GLIBCXX_ASSERTIONS MSGPACK_NO_BOOST TOML_HEADER_ONLY=0)
target_include_directories(lanemq_build INTERFACE ${PROJECT_SOURCE_DIR})
if(LANEMQ_SANITIZE)
  target_compile_options(lanemq_build INTERFACE -fsanitize=${LANEMQ_SANITIZE} -fno-sanitize-recover=all)
  target_link_options(lanemq_build INTERFACE -fsanitize=${LANEMQ_SANITIZE})
endif()
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)

# lanemq_library(NAME SOURCES...) and lanemq_program(NAME SOURCES...): a target with the shared settings.
# A library takes the settings publicly but for the warnings of nobody else: it is linked only inside this project.
function(lanemq_library name)
  add_library(${name} STATIC ${ARGN})
  target_link_libraries(${name} PUBLIC lanemq_build)
endfunction()

function(lanemq_program name)
  add_executable(${name} ${ARGN})
  target_link_libraries(${name} PRIVATE lanemq_build)
endfunction()
