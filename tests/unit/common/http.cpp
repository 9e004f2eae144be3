// What the HTTP servers make of what strangers send, without a socket.
#include <doctest/doctest.h>

#include <sys/socket.h>

#include <array>
#include <string>
#include <variant>
#include <vector>

#include "common/http/http_access.h"
#include "common/http/http_connection.h"
#include "common/http/http_parser.h"
#include "common/http/machine_names.h"
#include "common/http/metric_set.h"

using namespace meshbus;
using namespace meshbus::http;
using namespace std::chrono_literals;

namespace {

const HttpParser kParser({.head = 1024, .body = 16});

HttpRequest request_of(const std::string& text) {
  const auto parsed = kParser.parse(text);
  REQUIRE(std::holds_alternative<HttpRequest>(parsed));
  return std::get<HttpRequest>(parsed);
}

int refusal_of(const std::string& text) {
  const auto parsed = kParser.parse(text);
  const auto* response = std::get_if<HttpResponse>(&parsed);
  return response == nullptr ? 0 : response->status;
}

HttpAccess access_at(const std::string& address, const std::string& token = "") {
  return {*HostAddr::parse(address), token, {"node1", "node1.cluster"}};
}

/// A connection whose other end the test holds.
struct ConnectionPair {
  ConnectionPair() {
    std::array<int, 2> ends{};
    REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends.data()) == 0);
    peer.reset(ends[0]);
    connection.emplace(UniqueFd(ends[1]), limits, now);
  }
  void write(std::string_view text) const {
    REQUIRE(::send(peer.get(), text.data(), text.size(), 0) == static_cast<ssize_t>(text.size()));
  }
  std::string read() const {
    std::array<char, 65536> buffer;
    const auto got = ::recv(peer.get(), buffer.data(), buffer.size(), 0);
    return got > 0 ? std::string(buffer.data(), static_cast<std::size_t>(got)) : std::string();
  }

  HttpConnection::Limits limits{.request = {.head = 1024, .body = 16}, .stream = 100'000};
  Reactor::Time now{10s};
  UniqueFd peer;
  std::optional<HttpConnection> connection;
};

using ConnectionPhase = HttpConnection::Phase;

}  // namespace

TEST_CASE("http_parser: a request is decoded") {
  const auto request = request_of(
      "GET /a%20b?x=1%262&y=%3Cb%3E&x=3 HTTP/1.1\r\nHost: localhost:1\r\n"
      "Authorization: Bearer abc\r\nOrigin: http://evil\r\n\r\n");
  CHECK(request.method == "GET");
  CHECK(request.path == "/a b");
  CHECK(request.find_query("x") == "1&2");
  CHECK(request.find_query("y") == "<b>");
  CHECK(request.find_query("z") == "");
  CHECK(request.host == "localhost:1");
  CHECK(request.token == "abc");
  CHECK(request.origin == "http://evil");
  CHECK(request_of("POST / HTTP/1.1\r\nContent-Length: 3\r\n\r\nabcdef").body == "abc");
}

TEST_CASE("http_parser: what is not finished waits, what is too long or strange is refused") {
  CHECK(std::holds_alternative<HttpParser::Unfinished>(kParser.parse("")));
  CHECK(std::holds_alternative<HttpParser::Unfinished>(kParser.parse("GET / HTTP/1.1\r\nHo")));
  CHECK(std::holds_alternative<HttpParser::Unfinished>(
      kParser.parse("POST / HTTP/1.1\r\nContent-Length: 3\r\n\r\nab")));
  CHECK(refusal_of(std::string(2000, 'a')) == 431);
  CHECK(refusal_of("GET / HTTP/1.1\r\nA: " + std::string(2000, 'a') + "\r\n\r\n") == 431);
  CHECK(refusal_of("POST / HTTP/1.1\r\nContent-Length: 17\r\n\r\n") == 413);
  CHECK(refusal_of("POST / HTTP/1.1\r\nContent-Length: -1\r\n\r\n") != 0);
  CHECK(refusal_of("POST / HTTP/1.1\r\nContent-Length: 99999999999999999999\r\n\r\n") != 0);
  CHECK(refusal_of("POST / HTTP/1.1\r\nContent-Length: x\r\n\r\n") != 0);
  CHECK(refusal_of("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n") == 400);
  CHECK(refusal_of("DELETE / HTTP/1.1\r\n\r\n") == 405);
  CHECK(refusal_of("GET http://elsewhere/ HTTP/1.1\r\n\r\n") == 400);
  CHECK(refusal_of("GET /%zz HTTP/1.1\r\n\r\n") == 400);
  CHECK(refusal_of("GET /%00 HTTP/1.1\r\n\r\n") == 400);
  CHECK(refusal_of("GET /%0d%0aX:1 HTTP/1.1\r\n\r\n") == 400);
  CHECK(refusal_of("GET / HTTP/2.0\r\n\r\n") == 400);
  CHECK(refusal_of(std::string("GET / HTTP/1.1\r\nA: \0\r\n\r\n", 24)) == 400);
  CHECK(refusal_of("\r\n\r\n") == 400);
  CHECK(refusal_of("\x16\x03\x01 TLS hello\r\n\r\n") != 0);
  std::string many = "GET / HTTP/1.1\r\n";
  for (int i = 0; i < 150; ++i) many += "a:\r\n";
  CHECK(refusal_of(many + "\r\n") == 400);
}

TEST_CASE("http_access: a server on loopback goes by no other name") {
  const auto access = access_at("tcp:127.0.0.1:7425");
  CHECK(access.is_host_known("127.0.0.1:7425"));
  CHECK(access.is_host_known("localhost:7425"));
  CHECK(access.is_host_known("localhost"));
  CHECK(access.is_host_known("[::1]:7425"));
  CHECK_FALSE(access.is_host_known("evil.example:7425"));
  CHECK_FALSE(access.is_host_known("localhost.evil.example"));
  CHECK_FALSE(access.is_host_known("10.0.0.1:7425"));
  CHECK_FALSE(access.is_host_known(""));
  CHECK_FALSE(access.is_host_known("*"));
  const auto wide = access_at("tcp:10.0.0.1:7425");
  CHECK(wide.is_host_known("10.0.0.1:7425"));
  CHECK(wide.is_host_known("10.0.0.2"));
  CHECK_FALSE(wide.is_host_known("evil.example:7425"));
  CHECK_FALSE(wide.is_host_known("1.evil.example"));
  CHECK(wide.is_host_known("node1:7425"));
  CHECK(wide.is_host_known("Node1.cluster"));
  CHECK_FALSE(wide.is_host_known("node1.evil.example:7425"));
  CHECK_FALSE(wide.is_host_known("node11:7425"));
  CHECK_FALSE(access.is_host_known("node1:7425"));
  CHECK(access_at("unix:/run/m/page").is_host_known("anything"));
}

TEST_CASE("machine_names: the name, in the domains of the resolver and as /etc/hosts has it") {
  const std::string hosts =
      "127.0.0.1 localhost\n10.0.0.1 Node1.corp.example node1 cache # db\n10.0.0.2 node11 other\n";
  const std::string resolver = "# by dhcp\nnameserver 10.0.0.3\nsearch cluster lab.example\n";
  CHECK(machine_names("Node1", hosts, resolver) ==
        std::vector<std::string>{"node1", "node1.corp.example", "node1", "cache", "node1.cluster",
                                 "node1.lab.example"});
  CHECK(machine_names("node1", "", "") == std::vector<std::string>{"node1"});
  CHECK(machine_names("", hosts, resolver).empty());
}

TEST_CASE("http_access: the token") {
  HttpRequest request;
  CHECK(access_at("tcp:127.0.0.1:1").has_token(request));
  const auto access = access_at("tcp:127.0.0.1:1", "secret");
  CHECK_FALSE(access.has_token(request));
  for (const char* wrong : {"secre", "secret ", "Secret", "secretsecret"}) {
    request.token = wrong;
    CHECK_FALSE(access.has_token(request));
  }
  request.token = "secret";
  CHECK(access.has_token(request));
}

TEST_CASE("http_connection: one request, one response, then its end") {
  ConnectionPair pair;
  pair.write("GET /x HTTP/1.1\r\n");
  CHECK_FALSE(pair.connection->on_readable(pair.now));
  pair.write("Host: h\r\n\r\n");
  const auto request = pair.connection->on_readable(pair.now);
  REQUIRE(request);
  CHECK(request->path == "/x");
  CHECK(pair.connection->phase() == ConnectionPhase::answering);
  CHECK_FALSE(pair.connection->deadline());
  pair.connection->answer({.body = "hello"}, pair.now);
  const auto response = pair.read();
  CHECK(response.starts_with("HTTP/1.1 200 OK\r\n"));
  CHECK(response.ends_with("\r\n\r\nhello"));
  CHECK(response.find("X-Content-Type-Options: nosniff\r\n") != std::string::npos);
  CHECK(response.find("Access-Control") == std::string::npos);
  CHECK(pair.connection->phase() == ConnectionPhase::lingering);
  pair.peer.reset();
  pair.connection->on_readable(pair.now);
  CHECK(pair.connection->phase() == ConnectionPhase::ended);
}

TEST_CASE("http_connection: a HEAD is answered without a body") {
  ConnectionPair pair;
  pair.write("HEAD / HTTP/1.1\r\n\r\n");
  REQUIRE(pair.connection->on_readable(pair.now));
  pair.connection->answer({.body = "hello"}, pair.now);
  CHECK(pair.read().ends_with("\r\n\r\n"));
}

TEST_CASE("http_connection: a request that does not come in time ends it") {
  ConnectionPair pair;
  REQUIRE(pair.connection->deadline());
  CHECK(*pair.connection->deadline() == pair.now + pair.limits.reading);
  // Bytes that come one by one give it no more time.
  pair.write("G");
  CHECK_FALSE(pair.connection->on_readable(pair.now + 4s));
  CHECK(*pair.connection->deadline() == pair.now + pair.limits.reading);
  pair.connection->on_deadline();
  CHECK(pair.connection->phase() == ConnectionPhase::ended);
}

TEST_CASE("http_connection: a reader of a stream that is too slow loses it") {
  ConnectionPair pair;
  pair.write("GET / HTTP/1.1\r\n\r\n");
  REQUIRE(pair.connection->on_readable(pair.now));
  pair.connection->begin_stream({.type = "text/event-stream"}, pair.now);
  CHECK_FALSE(pair.connection->deadline());
  CHECK(pair.connection->write("data: 1\n\n", pair.now));
  CHECK(pair.read().ends_with("data: 1\n\n"));
  const std::string much(50'000, 'x');
  bool is_taken = true;
  std::size_t written = 0;
  while (is_taken && written < 10'000'000) {
    is_taken = pair.connection->write(much, pair.now);
    written += much.size();
  }
  CHECK_FALSE(is_taken);
  CHECK(pair.connection->phase() == ConnectionPhase::ended);
  CHECK_FALSE(pair.connection->write("more", pair.now));
}

TEST_CASE("metric_set: a counter that starts again somewhere else does not go back") {
  MetricSet metrics;
  const MetricSet::Metric metric{"meshbus_test_things_total", "Things."};
  metrics.follow(metric, 7, 5);
  metrics.follow(metric, 7, 9);
  CHECK(metrics.render().find("meshbus_test_things_total 9\n") != std::string::npos);
  metrics.follow(metric, 8, 2);
  metrics.follow(metric, 8, 2);
  CHECK(metrics.render().find("meshbus_test_things_total 11\n") != std::string::npos);
  metrics.follow(metric, 8, 3, {{"kind", "b"}});
  metrics.set({"meshbus_test_level", "A level."}, 1.5);
  const auto text = metrics.render();
  CHECK(text.find("meshbus_test_things_total{kind=\"b\"} 3\n") != std::string::npos);
  CHECK(text.find("# TYPE meshbus_test_things_total counter\n") != std::string::npos);
  CHECK(text.find("# HELP meshbus_test_level A level.\n") != std::string::npos);
  CHECK(text.find("meshbus_test_level 1.5\n") != std::string::npos);
}
