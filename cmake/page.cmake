# Makes FROM's report.css and report.js constants of C in TO, with what a Content-Security-Policy names them
# by: the base64 of their SHA-256. Needs nothing but CMake.
set(DIGITS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")

# Three hex digits are two digits in base64; the 64 of a SHA-256 leave one over, for which a digit and `=`
# stand.
function(base64_of hex result)
  set(text "")
  foreach(at RANGE 0 60 3)
    string(SUBSTRING ${hex} ${at} 3 piece)
    math(EXPR high "0x${piece} >> 6")
    math(EXPR low "0x${piece} & 63")
    string(SUBSTRING ${DIGITS} ${high} 1 first)
    string(SUBSTRING ${DIGITS} ${low} 1 second)
    string(APPEND text ${first}${second})
  endforeach()
  string(SUBSTRING ${hex} 63 1 piece)
  math(EXPR last "0x${piece} << 2")
  string(SUBSTRING ${DIGITS} ${last} 1 first)
  set(${result} "${text}${first}=" PARENT_SCOPE)
endfunction()

set(out "/* Made by cmake/page.cmake. */\n#include \"report/page/page.h\"\n\n")
foreach(kind css js)
  set(file ${FROM}/report.${kind})
  file(READ ${file} hex HEX)
  # A browser ends the element at its closing tag, and reads a carriage return as a line feed: the sum would
  # be another one then.
  file(READ ${file} text)
  string(TOLOWER "${text}" text)
  foreach(trap "</style" "</script" "<script" "<!--" "\r")
    string(FIND "${text}" "${trap}" at)
    if(NOT at EQUAL -1)
      message(FATAL_ERROR
        "${file} has a carriage return, a tag of a script or style, or a comment: no page can hold it")
    endif()
  endforeach()
  string(REGEX REPLACE "(..)" "0x\\1," bytes "${hex}")
  string(REGEX REPLACE "(0x0a,)" "\\1\n" bytes "${bytes}")
  file(SHA256 ${file} sum)
  base64_of(${sum} base64)
  string(APPEND out "const unsigned char lmi_page_${kind}[] = {\n${bytes}0};\n")
  string(APPEND out "const char lmi_page_${kind}_sum[] = \"${base64}\";\n")
endforeach()
file(WRITE ${TO} "${out}")
