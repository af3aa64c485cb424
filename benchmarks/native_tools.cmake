# Read by CMake when llama.cpp's own CMakeLists.txt has named its project (CMAKE_PROJECT_llama.cpp_INCLUDE).
#
# llama.cpp's programs are linked with the libraries that the installed llama-cpp-python has brought: the very same code
# is measured on both sides, and half of the compiling is spared. So those libraries are declared here, the folders
# that would build them again are passed over, and nothing is installed.

file(GLOB COGSTEP_FOUND "${COGSTEP_LIBRARIES}/*ggml-base*" "${COGSTEP_LIBRARIES}/*llama*" "${COGSTEP_LIBRARIES}/*mtmd*")
if (NOT COGSTEP_FOUND)
    message(FATAL_ERROR "there are no libraries of llama.cpp in ${COGSTEP_LIBRARIES}")
endif()

foreach (name ggml-base ggml-cpu ggml llama mtmd)
    set(file "${COGSTEP_LIBRARIES}/${CMAKE_SHARED_LIBRARY_PREFIX}${name}${CMAKE_SHARED_LIBRARY_SUFFIX}")
    add_library(${name} SHARED IMPORTED GLOBAL)
    set_target_properties(${name} PROPERTIES IMPORTED_LOCATION "${file}")
endforeach()
target_include_directories(ggml INTERFACE "${CMAKE_CURRENT_SOURCE_DIR}/ggml/include")
target_link_libraries(ggml INTERFACE ggml-cpu ggml-base)
target_include_directories(llama INTERFACE "${CMAKE_CURRENT_SOURCE_DIR}/include")
target_link_libraries(llama INTERFACE ggml)
target_include_directories(mtmd INTERFACE "${CMAKE_CURRENT_SOURCE_DIR}/tools/mtmd")
target_link_libraries(mtmd INTERFACE llama)

macro(add_subdirectory folder)
    if (NOT "${folder}" MATCHES "^(src|ggml|mtmd)$")
        _add_subdirectory(${folder} ${ARGN})
    endif()
endmacro()

macro(install)
endmacro()
