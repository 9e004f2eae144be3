#include "client/controller/http/page_logs.h"

#include <chrono>
#include <utility>

#include <nlohmann/json.hpp>

namespace meshbus {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kMostStreams = 8;
constexpr std::chrono::milliseconds kWritePause{100};
/// An empty line now and then, so that a dead connection is noticed.
constexpr std::chrono::seconds kSignOfLife{10};

std::string event_text(const char* name, const Json& data) {
  return std::string("event: ") + name +
         "\ndata: " + data.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n\n";
}

std::string pieces_event(const std::vector<LogReader::Piece>& pieces) {
  Json list = Json::array();
  for (const LogReader::Piece& piece : pieces) {
    list.push_back({{"rank", piece.rank},
                    {"stream", piece.is_error ? "stderr" : "stdout"},
                    {"offset", piece.offset},
                    {"bytes", piece.bytes.size()},
                    {"text", std::string(piece.bytes)}});
  }
  return event_text("pieces", {{"pieces", std::move(list)}});
}

}  // namespace

PageLogs::~PageLogs() {
  reactor_.cancel(timer_);
}

bool PageLogs::is_full() const noexcept {
  return streams_.size() >= kMostStreams;
}

void PageLogs::add(const http::HttpServer::Reply& reply, LogReader::Options options) {
  Stream& stream = streams_.emplace_back(Stream{.reply = reply});
  stream.reader = std::make_unique<LogReader>(
      reactor_, std::move(options),
      LogReader::Events{.on_pieces =
                            [&stream](const std::vector<LogReader::Piece>& pieces) {
                              stream.waiting += pieces_event(pieces);
                            },
                        .on_end =
                            [&stream](const HostAddr& host, const Result<void>& how) {
                              stream.waiting += event_text(
                                  "end",
                                  {{"host", host.to_string()},
                                   {"error", how ? Json(nullptr) : Json(how.error().to_string())}});
                            }});
  if (timer_ == 0) timer_ = reactor_.after(kWritePause, [this] { tick(); });
}

void PageLogs::tick() {
  timer_ = 0;
  const auto now = reactor_.now();
  for (Stream& stream : streams_) {
    if (!stream.reply.is_idle()) continue;
    if (stream.waiting.empty() && now - stream.written >= kSignOfLife) stream.waiting = ":\n\n";
    if (stream.waiting.empty()) continue;
    stream.reply.write(std::exchange(stream.waiting, {}));
    stream.written = now;
    stream.reader->take();
  }
  streams_.remove_if([](const Stream& stream) { return !stream.reply.is_open(); });
  if (!streams_.empty()) timer_ = reactor_.after(kWritePause, [this] { tick(); });
}

}  // namespace meshbus
