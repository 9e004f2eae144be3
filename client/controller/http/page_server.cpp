#include "client/controller/http/page_server.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "client/controller/http/page_files.h"
#include "common/http/machine_names.h"

namespace meshbus {
namespace {

using namespace std::chrono_literals;
using http::HttpRequest;
using http::HttpResponse;
using http::HttpServer;
using http::text_response;

/// Changes are told at most so often.
constexpr auto kPause = 250ms;
/// A reader hears something at least so often, so that a dead connection is noticed.
constexpr auto kBeat = 10s;
/// Without counts for so long the controller is stuck.
constexpr auto kStuck = 10s;
constexpr std::size_t kMostReaders = 32;
/// A reader of logs has a connection to each host of the mesh.
constexpr std::size_t kMostLogHosts = 64;
/// A first view of 200,000 ranks fits.
constexpr HttpServer::Limits kLimits{
    .connections = 64,
    .connection = {.request = {.head = 16 * 1024, .body = 16 * 1024}, .stream = 512 * 1024 * 1024}};

/// Nothing but files of this server, no inline script or style, no markup made of texts, no frames.
constexpr const char* kPolicy =
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'";

HttpResponse with_policy(HttpResponse response) {
  response.headers.emplace_back("Content-Security-Policy", kPolicy);
  response.headers.emplace_back("Cross-Origin-Resource-Policy", "same-origin");
  response.headers.emplace_back("Cross-Origin-Opener-Policy", "same-origin");
  return response;
}

HttpResponse token_missing() {
  return {.status = 401,
          .body = "the API needs the token of the controller\n",
          .headers = {{"WWW-Authenticate", "Bearer"}}};
}

/// Nothing: it is no number.
std::optional<std::uint64_t> read_number(std::string_view text) {
  if (text.empty()) return 0;
  std::uint64_t number = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), number);
  if (read.ec != std::errc() || read.ptr != text.data() + text.size()) return std::nullopt;
  return number;
}

HttpResponse find_file(std::string_view path) {
  const std::string_view wanted = path == "/" ? "/index.html" : path;
  const auto files = page_files();
  const auto found =
      std::ranges::find_if(files, [&](const PageFile& file) { return file.path == wanted; });
  if (found == files.end()) return text_response(404, "there is no such page");
  return {.type = std::string(found->type), .body = std::string(found->bytes)};
}

}  // namespace

PageServer::PageServer(Reactor& reactor, http::HttpSocket socket, Options options)
    : reactor_(reactor),
      access_(socket.address, std::move(options.token), http::machine_names()),
      reach_(options.site.reach),
      logs_(reactor),
      site_(reactor, std::move(options.site), [this] { on_change(); }),
      server_(reactor, std::move(socket), kLimits,
              [this](const HttpRequest& request, const HttpServer::Reply& reply) {
                on_request(request, reply);
              }) {
  if (options.acts) acts_.emplace(reactor, site_, std::move(*options.acts));
}

PageServer::~PageServer() {
  reactor_.cancel(timer_);
  reactor_.cancel(beat_);
}

void PageServer::set_counts(const ControllerCounts& counts) {
  counts_ = counts;
  counted_ = reactor_.now();
  metrics_.set(counts);
}

HttpResponse PageServer::health() const {
  if (!counted_ || reactor_.now() - *counted_ >= kStuck)
    return text_response(503, "the controller does not answer");
  if (!counts_.is_up) return text_response(503, "no broker has taken the controller");
  if (!counts_.is_acting)
    return text_response(
        200, "ok: stands by; " + (counts_.actor.empty() ? std::string("none is known to act")
                                                        : counts_.actor + " acts"));
  return text_response(200, counts_.actor.empty()
                                ? std::string("ok")
                                : "ok: acts, in term " + std::to_string(counts_.term));
}

void PageServer::on_request(const HttpRequest& request, const HttpServer::Reply& reply) {
  if (!access_.is_host_known(request.host)) return reply.send(with_policy(http::unknown_host()));
  if (request.method == "POST") return on_order(request, reply);
  if (request.path.starts_with("/api/")) return on_api(request, reply);
  if (request.path == "/healthz") return reply.send(with_policy(health()));
  if (request.path != "/metrics") return reply.send(with_policy(find_file(request.path)));
  metrics_.set_readers(readers_.size());
  reply.send(with_policy({.type = http::MetricSet::kType, .body = metrics_.render()}));
}

void PageServer::on_order(const HttpRequest& request, const HttpServer::Reply& reply) {
  if (!acts_)
    return reply.send(with_policy(
        text_response(405, "this page only reads; meshbus-controller --http-write lets it act")));
  if (!access_.has_token(request)) return reply.send(with_policy(token_missing()));
  if (!http::HttpAccess::is_own_origin(request))
    return reply.send(with_policy(text_response(403, "a page of another server asks for this")));
  auto order = PageOrder::parse(request.path, request.body);
  if (!order) {
    const int status = order.error().code() == ErrorCode::not_exist ? 404 : 400;
    return reply.send(with_policy(text_response(status, order.error().detail())));
  }
  acts_->act(std::move(*order), [reply](const PageActs::Outcome& outcome) {
    const bool is_json = outcome.status == 200 || outcome.status == 502;
    reply.send(with_policy(is_json ? HttpResponse{.status = outcome.status,
                                                  .type = "application/json",
                                                  .body = outcome.text}
                                   : text_response(outcome.status, outcome.text)));
  });
}

void PageServer::on_api(const HttpRequest& request, const HttpServer::Reply& reply) {
  if (!access_.has_token(request)) return reply.send(with_policy(token_missing()));
  const auto since = read_number(request.find_query("since"));
  if (!since) return reply.send(with_policy(text_response(400, "since: expected a number")));
  if (request.path == "/api/site")
    return reply.send(with_policy({.type = "application/json", .body = make_view(*since) + "\n"}));
  if (request.path == "/api/rights")
    return reply.send(
        with_policy({.type = "application/json",
                     .body = acts_ ? "{\"write\": true}\n" : "{\"write\": false}\n"}));
  if (request.path == "/api/stream" && request.method == "GET") return add_reader(reply, *since);
  if (request.path == "/api/logs" && request.method == "GET") return add_log_reader(request, reply);
  reply.send(with_policy(text_response(404, "the API has no such path")));
}

std::string PageServer::make_view(std::uint64_t since) const {
  // A number of another controller's life means nothing here.
  const auto known = since <= site_.table().sequence() ? since : 0;
  return to_json(site_.table().view(known, std::chrono::system_clock::now()));
}

void PageServer::add_reader(const HttpServer::Reply& reply, std::uint64_t since) {
  std::erase_if(readers_, [](const Reader& reader) { return !reader.reply.is_open(); });
  if (readers_.size() >= kMostReaders)
    return reply.send(with_policy(text_response(503, "too many readers already")));
  reply.begin_stream(with_policy({.type = "text/event-stream", .body = {}}));
  const auto known = since <= site_.table().sequence() ? since : 0;
  readers_.push_back({.reply = reply, .since = known, .written = {}});
  tell_readers();
}

void PageServer::add_log_reader(const HttpRequest& request, const HttpServer::Reply& reply) {
  LogReader::Options options{.mesh = std::string(request.find_query("mesh")),
                             .hosts = {},
                             .rank = std::nullopt,
                             .reach = reach_};
  const auto refuse = [&reply](int status, const char* why) {
    reply.send(with_policy(text_response(status, why)));
  };
  const auto rank = read_number(request.find_query("rank"));
  if (!rank) return refuse(400, "rank: expected a number");
  if (!request.find_query("rank").empty()) options.rank = rank;
  const auto view = site_.table().view(0, std::chrono::system_clock::now());
  const auto mesh = std::ranges::find(view.meshes, options.mesh, &SiteMesh::name);
  if (mesh == view.meshes.end()) return refuse(404, "this site has no such mesh");
  std::set<HostAddr> hosts;
  for (const auto& one : mesh->ranks) {
    if (!options.rank || one->report.rank == *options.rank) hosts.insert(one->report.host);
  }
  if (hosts.empty()) return refuse(404, "the mesh has no such rank");
  if (hosts.size() > kMostLogHosts)
    return refuse(400, "the mesh is on too many hosts: choose a rank");
  if (logs_.is_full()) return refuse(503, "too many readers already");
  options.hosts.assign(hosts.begin(), hosts.end());
  reply.begin_stream(with_policy({.type = "text/event-stream", .body = {}}));
  logs_.add(reply, std::move(options));
}

void PageServer::on_change() {
  if (timer_ != 0 || readers_.empty()) return;
  timer_ = reactor_.after(kPause, [this] {
    timer_ = 0;
    tell_readers();
  });
}

void PageServer::tell_readers() {
  reactor_.cancel(beat_);
  beat_ = 0;
  const auto now = reactor_.now();
  const auto sequence = site_.table().sequence();
  // Most readers know the same.
  std::map<std::uint64_t, std::string> views;
  for (Reader& reader : readers_) {
    if (!reader.reply.is_idle()) continue;
    if (reader.since == sequence && now - reader.written < kBeat) continue;
    std::string& text = views[reader.since];
    if (text.empty())
      text = "event: site\nid: " + std::to_string(sequence) + "\ndata: " + make_view(reader.since) +
             "\n\n";
    reader.reply.write(text);
    reader.since = sequence;
    reader.written = now;
  }
  std::erase_if(readers_, [](const Reader& reader) { return !reader.reply.is_open(); });
  if (!readers_.empty()) beat_ = reactor_.after(kBeat / 10, [this] { tell_readers(); });
}

}  // namespace meshbus
