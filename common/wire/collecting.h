#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/bytes.h"
#include "meshbus/accumulator.h"
#include "meshbus/proc_mesh_ref.h"
#include "meshbus/result.h"

/// Answers that are reduced at each host, as they travel (schemas/replies.fbs). What is read comes
/// from strangers: errors are malformed_message, and say what is wrong.
namespace meshbus {

/// ActorHeader.message of what is asked that way. No MessageType has that key: numbers are below
/// it, keys of names above 2^63.
inline constexpr std::uint64_t kCollectMessage = std::uint64_t{1} << 32;
/// What an answer may have, and what those that become longer by reducing, overlays, may have
/// together on one host.
inline constexpr std::size_t kCollectedAnswerLimit = std::size_t{256} * 1024;
inline constexpr std::size_t kCollectedTextLimit = std::size_t{1024};
/// As many as a cast may have on one host.
inline constexpr std::uint64_t kMostCollectedRanks = 65'536;

/// What an agent is asked to collect.
struct CollectOrder {
  std::uint64_t ticket = 0;
  std::string mesh;
  std::string reducer;
  std::vector<RankBlock> ranks;  ///< Ascending, disjoint, not empty; kMostCollectedRanks in all.
  std::string asker;
  std::chrono::milliseconds limit{0};
  bool has_parts = false;
};
std::string encode(const CollectOrder& order);
Result<CollectOrder> decode_collect_order(Bytes bytes);

/// Ranks that have no part, and why.
struct CollectProblem {
  Error error;
  std::vector<RankBlock> ranks;
};
/// What a host has to tell. Ranks are counted from 0 in the order of CollectOrder::ranks.
struct Collected {
  std::optional<Partial> reduced = {};
  std::vector<CollectProblem> problems = {};
  std::uint32_t parts = 0;
};
std::string encode(const Collected& collected);
Result<Collected> decode_collected(Bytes bytes);

/// The body of the cast to the actors: `actor_body` is what a call would have.
std::string encode_collected_call(std::uint64_t ticket, std::chrono::milliseconds limit,
                                  Bytes actor_body);
/// What is behind the ActorHeader of such a cast.
struct CollectedCall {
  std::uint64_t ticket = 0;
  std::uint32_t limit_ms = 0;
  Bytes actor_body = {};  ///< Refers to what was decoded.
};
Result<CollectedCall> decode_collected_call(Bytes bytes);

/// What a proc tells its agent.
std::string encode_collected_answer(std::uint64_t ticket, const Result<std::string>& answer);
struct CollectedReply {
  std::uint64_t ticket = 0;
  Result<Bytes> answer;
};
Result<CollectedReply> decode_collected_answer(Bytes bytes);

/// A struct of the schema, and what follows it.
template <typename Header>
std::string with_header(const Header& header, Bytes body) {
  std::string bytes(reinterpret_cast<const char*>(&header), sizeof header);
  return bytes.append(body);
}
/// Takes it off the front. False when there is not as much.
template <typename Header>
bool take_header(Bytes& bytes, Header& header) {
  if (bytes.size() < sizeof header) return false;
  bytes.copy(reinterpret_cast<char*>(&header), sizeof header);
  bytes.remove_prefix(sizeof header);
  return true;
}

}  // namespace meshbus
