# SPDX-License-Identifier: Apache-2.0
# Writes a C++ source that holds files as they stand, and zipped.
#   cmake -DOUTPUT=… -DGZIP=… -DFILES=NAME=PATH;… -P embed.cmake
set(types_html "text/html; charset=utf-8")
set(types_css "text/css; charset=utf-8")
set(types_js "text/javascript; charset=utf-8")
set(types_svg "image/svg+xml")

function(bytes_of path result)
  file(READ ${path} hex HEX)
  string(REGEX REPLACE "(..)" "\\\\x\\1" hex "${hex}")
  set(${result} "${hex}" PARENT_SCOPE)
endfunction()

set(rows "")
foreach(file IN LISTS FILES)
  string(REGEX MATCH "^([^=]+)=(.+)$" matched "${file}")
  set(name ${CMAKE_MATCH_1})
  set(path ${CMAKE_MATCH_2})
  string(REGEX MATCH "[a-z]+$" ending ${name})
  execute_process(COMMAND ${GZIP} -9nc ${path} OUTPUT_FILE ${OUTPUT}.gz COMMAND_ERROR_IS_FATAL ANY)
  bytes_of(${path} plain)
  bytes_of(${OUTPUT}.gz zipped)
  file(SHA256 ${path} hash)
  string(SUBSTRING ${hash} 0 20 hash)
  string(APPEND rows "    {\"${name}\", \"${types_${ending}}\", \"\\\"${hash}\\\"\"sv,\n     \"${plain}\"sv,\n     \"${zipped}\"sv},\n")
endforeach()
file(REMOVE ${OUTPUT}.gz)
file(WRITE ${OUTPUT} "// Made by embed.cmake.
#include \"broker/http/page_files.hpp\"

using namespace std::literals;

namespace lanemq::admin {
namespace {

constexpr PageFile kFiles[] = {
${rows}};

}  // namespace

std::span<const PageFile> page_files() {
  return kFiles;
}

}  // namespace lanemq::admin
")
