#include "client/src/monitors/output_receiver.h"

#include <algorithm>
#include <string_view>

namespace meshbus {

OutputReceiver::Batch OutputReceiver::receive(const HostAddr& from, const wire::Output& output,
                                              const RankTable& table, bool is_wanted, Time now) {
  last_ = heard_ = now;
  ++unhandled_;
  const auto is_ours = [&](std::uint64_t rank) {
    return rank < table.size() && table.rank(rank).host == from;
  };
  Batch batch;
  if (output.chunks() != nullptr) {
    for (const auto* chunk : *output.chunks()) {
      const auto rank = chunk->rank();
      const bool is_err = chunk->stream() == wire::Stream::err;
      if (!is_ours(rank) || (chunk->stream() != wire::Stream::out && !is_err)) continue;
      auto& received = received_[rank][is_err ? 1 : 0];
      std::string_view bytes(reinterpret_cast<const char*>(chunk->data()->data()),
                             chunk->data()->size());
      if (chunk->offset() > received) {
        batch.taken.resend = true;  // the bytes between were lost on their way
        continue;
      }
      const auto known = std::min<std::uint64_t>(received - chunk->offset(), bytes.size());
      bytes.remove_prefix(static_cast<std::size_t>(known));
      received += bytes.size();
      batch.taken.bytes += bytes.size();
      batch.taken.positions.emplace_back(rank, received, chunk->stream());
      if (is_wanted && !bytes.empty())
        batch.chunks.push_back({rank, is_err ? Stream::err : Stream::out, std::string(bytes)});
    }
  }
  if (output.ends() != nullptr) {
    for (const auto* end : *output.ends()) {
      if (!is_ours(end->rank())) continue;
      if (received_[end->rank()] == std::array{end->out(), end->err()}) {
        batch.ended.push_back(end->rank());
      } else {
        batch.taken.resend = true;
      }
    }
  }
  // All that comes behind a gap is answered by one question.
  if (batch.taken.resend && now - asked_ < kAskAgain) batch.taken.resend = false;
  if (batch.taken.resend) asked_ = now;
  return batch;
}

void OutputReceiver::on_handled(const std::vector<std::uint64_t>& ended, Time now) {
  for (const auto rank : ended) is_ended_[rank] = true;
  --unhandled_;
  last_ = now;
}

bool OutputReceiver::should_ask_again(const RankTable& table, Time now) {
  if (is_over(table) || !is_idle() || now - heard_ < kAskAgain) return false;
  heard_ = now;
  return true;
}

bool OutputReceiver::is_rank_over(const RankReport& rank) const {
  // A rank that never ran, or whose host is lost, has no output to come.
  return is_ended_[rank.rank] || rank.pid == 0 || rank.code == ErrorCode::host_unreachable;
}

bool OutputReceiver::is_over(const RankTable& table) const {
  return is_idle() && std::all_of(table.ranks().begin(), table.ranks().end(),
                                  [this](const RankReport& rank) { return is_rank_over(rank); });
}

bool OutputReceiver::is_over_on(const HostAddr& host, const RankTable& table) const {
  return std::all_of(table.ranks().begin(), table.ranks().end(), [&](const RankReport& rank) {
    return rank.host != host || is_rank_over(rank);
  });
}

bool OutputReceiver::is_over_from(std::uint64_t first, const RankTable& table) const {
  return is_idle() &&
         std::all_of(table.ranks().begin(), table.ranks().end(), [&](const RankReport& rank) {
           return rank.rank < first || is_rank_over(rank);
         });
}

void OutputReceiver::lose(const HostAddr& host, const RankTable& table) {
  for (const auto& rank : table.ranks()) {
    if (rank.host == host) is_ended_[rank.rank] = true;
  }
}

OutputReceiver::Time OutputReceiver::give_up_at(const RankTable& table, Time now) {
  if (!last_) last_ = now;
  const bool has_living_host =
      std::any_of(table.ranks().begin(), table.ranks().end(), [this](const RankReport& rank) {
        return !is_rank_over(rank) && rank.cause != Cause::host_lost;
      });
  return *last_ + (has_living_host ? limit_ : std::min(limit_, kLastWordsLimit));
}

}  // namespace meshbus
