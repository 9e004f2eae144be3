#include "common/http/http_message.h"

#include <sstream>

#include <Poco/Net/HTTPResponse.h>

namespace meshbus::http {

std::string write_head(const HttpResponse& response, const std::size_t* length) {
  using Poco::Net::HTTPResponse;
  HTTPResponse head(HTTPResponse::HTTP_1_1, static_cast<HTTPResponse::HTTPStatus>(response.status));
  head.setContentType(response.type);
  if (length != nullptr) head.setContentLength64(static_cast<Poco::Int64>(*length));
  head.setKeepAlive(false);
  head.set("Cache-Control", "no-store");
  head.set("X-Content-Type-Options", "nosniff");
  head.set("X-Frame-Options", "DENY");
  head.set("Referrer-Policy", "no-referrer");
  for (const auto& [name, value] : response.headers) head.set(name, value);
  std::ostringstream out;
  head.write(out);
  return out.str();
}

HttpResponse text_response(int status, std::string text) {
  return {.status = status, .body = std::move(text) + "\n"};
}

HttpResponse unknown_host() {
  return text_response(421,
                       "this server does not go by that name: use an IP address, or the name of "
                       "its machine");
}

}  // namespace meshbus::http
