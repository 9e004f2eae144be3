// A request to the HTTP servers of hosts and controllers: no bytes crash, and what is read is
// bounded and well-formed.
#include <string>
#include <variant>

#include "common/http/http_access.h"
#include "common/http/http_parser.h"
#include "tests/fuzz/support.h"

using namespace meshbus;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto text = fuzz::text_of(data, size);
  static const http::HttpParser parser({.head = 4096, .body = 1024});
  static const http::HttpAccess access(*HostAddr::parse("tcp:127.0.0.1:1"), "token", {"node1"});
  const auto parsed = parser.parse(text);
  if (const auto* request = std::get_if<http::HttpRequest>(&parsed)) {
    FUZZ_CHECK(request->path.starts_with('/'), text);
    FUZZ_CHECK(request->path.find('\n') == std::string::npos, text);
    FUZZ_CHECK(request->body.size() <= 1024, text);
    FUZZ_CHECK(!access.has_token(*request) || request->token == "token", text);
    access.is_host_known(request->host);
  } else if (const auto* refusal = std::get_if<http::HttpResponse>(&parsed)) {
    FUZZ_CHECK(refusal->status >= 400 && refusal->status < 500, text);
  } else {
    FUZZ_CHECK(text.size() < 4096 + 1024, text);
  }
  return 0;
}
