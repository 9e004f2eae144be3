#include "common/http/http_parser.h"

#include <algorithm>
#include <sstream>
#include <string>

#include <Poco/Exception.h>
#include <Poco/Net/HTTPRequest.h>
#include <Poco/URI.h>

namespace meshbus::http {
namespace {

constexpr std::string_view kHeadEnd = "\r\n\r\n";
constexpr std::string_view kBearer = "Bearer ";

/// A text that may stand in a path, a query or a header: no control characters.
bool is_plain(std::string_view text) {
  return std::ranges::none_of(text, [](char letter) {
    const auto byte = static_cast<unsigned char>(letter);
    return byte < 0x20 || byte == 0x7f;
  });
}

/// Errors: throws Poco::Exception.
HttpRequest read_head(std::string_view bytes, std::size_t& length) {
  std::istringstream in{std::string(bytes)};
  Poco::Net::HTTPRequest head;
  head.read(in);
  if (head.getVersion() != Poco::Net::HTTPRequest::HTTP_1_1 &&
      head.getVersion() != Poco::Net::HTTPRequest::HTTP_1_0)
    throw Poco::SyntaxException("only HTTP/1.0 and HTTP/1.1 are served");
  if (head.has("Transfer-Encoding"))
    throw Poco::SyntaxException("a request needs a Content-Length, not a Transfer-Encoding");
  if (head.getURI().empty() || head.getURI().front() != '/')
    throw Poco::SyntaxException("the target of a request begins with a slash");
  HttpRequest request;
  request.method = head.getMethod();
  // As Poco parses it, "//x/y" would name another server.
  const Poco::URI uri("http://meshbus" + head.getURI());
  request.path = uri.getPath();
  for (const auto& [name, value] : uri.getQueryParameters()) request.query.emplace(name, value);
  request.host = head.get("Host", "");
  request.origin = head.get("Origin", "");
  const std::string authorization = head.get("Authorization", "");
  if (authorization.starts_with(kBearer)) request.token = authorization.substr(kBearer.size());
  length = head.hasContentLength() ? static_cast<std::size_t>(head.getContentLength64()) : 0;
  const bool is_fine = is_plain(request.path) && is_plain(request.host) &&
                       is_plain(request.origin) && is_plain(request.token);
  if (!is_fine) throw Poco::SyntaxException("control characters");
  return request;
}

}  // namespace

std::variant<HttpParser::Unfinished, HttpRequest, HttpResponse> HttpParser::parse(
    std::string_view bytes) const {
  const auto end = bytes.substr(0, limits_.head).find(kHeadEnd);
  if (end == std::string_view::npos) {
    if (bytes.size() >= limits_.head)
      return text_response(
          431, "the head of a request has at most " + std::to_string(limits_.head) + " bytes");
    return Unfinished{};
  }
  const std::string_view head = bytes.substr(0, end + kHeadEnd.size());
  if (head.find('\0') != std::string_view::npos) return text_response(400, "bad request");
  try {
    std::size_t length = 0;
    HttpRequest request = read_head(head, length);
    if (request.method != "GET" && request.method != "HEAD" && request.method != "POST")
      return text_response(405, "only GET, HEAD and POST are served");
    if (length > limits_.body)
      return text_response(
          413, "the body of a request has at most " + std::to_string(limits_.body) + " bytes");
    const std::string_view body = bytes.substr(head.size());
    if (body.size() < length) return Unfinished{};
    request.body = body.substr(0, length);
    return request;
  } catch (const std::exception&) {
    return text_response(400, "bad request");
  }
}

}  // namespace meshbus::http
