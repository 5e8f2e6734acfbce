// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/texts.hpp"

namespace lanemq::fuzz {

std::vector<std::string> url_seeds() {
  return {"https://api.example/v1?x=%20#part",
          "http://[::1]:8000/v1",
          "HTTP://LOCALHOST:1/../%2e%2e",
          "http://user:pass@host",
          "http://0x7f.1/",
          "http://a.internal:443?q",
          "http://xn--bcher-kva.example/\xc3\xbc",
          "otlp \"http://collector:4318\": it holds credentials",
          "tcp://key:secret@h, ipc:///run/x 'sk-0123456789abcdef0123'"};
}

std::vector<std::string> path_seeds() {
  return {"/v1/chat/completions",
          "/v1/../x",
          "/a/%2e%2e/b",
          "/a/%252e%252E%2fb",
          "\\..\\b",
          "/a/..;x=1/b?../c",
          "/v1/files/%2e/content",
          "/%25252e%25252e/%5c..",
          "/....//./"};
}

std::vector<std::string> terminal_seeds() {
  return {"plain text\n\twith tabs",
          "\x1b[2J\x1b]0;title\x07",
          "\xc2\x9b"
          "2J\x9b"
          "31m",
          "\xe2\x80\xae"
          "gnp.exe\xe2\x80\xac \xe2\x81\xa6x\xe2\x81\xa9",
          "h\xc3\xa9llo \xf0\x9f\x98\x80",
          "\xed\xa0\x80\xc0\x80\xf8\x88\x80\x80\x80",
          "cut \xe2\x80",
          std::string("nul\0del\x7f", 8)};
}

}  // namespace lanemq::fuzz
