// New hosts that come with a one-time token (docs/decisions/0021-a-new-host-joins.md).
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>

#include "broker/broker_impl.h"

#include "wire/bus_generated.h"

namespace meshbus {

void Broker::Impl::look_for_tokens() {
  tokens_.clear();
  for (auto& record : TokenFolder(*options.keys).read()) {
    // Whether it was used is seen by looking once, so a name may be there twice for a moment; used
    // counts.
    auto& known = tokens_[record.key];
    if (!known.is_used) known = std::move(record);
  }
}

const TokenRecord* Broker::Impl::token_of(const Credentials& credentials) const {
  if (credentials.key.empty() || credentials.holder) return nullptr;
  const auto found = tokens_.find(credentials.key);
  return found == tokens_.end() ? nullptr : &found->second;
}

void Broker::Impl::on_joining(const TokenRecord& token, const wire::Hello& hello) {
  // Taking it changes what is known of it.
  const TokenRecord record = token;
  const auto answer = take_token(record, hello);
  if (!answer) {
    refuse_stranger(*stranger_, answer.error().within("the token for host " + record.name +
                                                      ", from " + stranger_->credentials.address));
    return;
  }
  wire::Envelope envelope;
  envelope.mutate_kind(wire::Kind::message);
  envelope.mutate_source_host(forwarder_->own_key());
  envelope.mutate_source_incarnation(incarnation);
  envelope.mutate_role(Role::broker);
  envelope.mutate_flags(kFlagNoReturn);
  FrameWriter writer(wire::Lane::control);
  writer.add(envelope, *answer);
  Frame frame = writer.finish();
  listener->send(stranger_->connection, frame);
  // It is no peer, and has nothing more to say.
  refused_.add(stranger_->connection, 0);
}

Result<std::string> Broker::Impl::take_token(const TokenRecord& token, const wire::Hello& hello) {
  const auto version = common_version("the new host " + token.name, Protocol::of(hello),
                                      "the broker of " + host->to_string(), options.protocol);
  if (!version) return fail(version.error());
  const auto address = HostAddr::parse(hello.peer()->string_view());
  if (!address || !KeyHolder{.role = wire::Role::host, .names = {token.name}}.is_host(*address))
    return fail(ErrorCode::identity_mismatch,
                "it is for that host alone, and whoever has it would be known as " +
                    cut_text(hello.peer()->str(), 256));
  const auto* sent = hello.token();
  const std::string key =
      sent == nullptr ? std::string() : std::string(bytes_of(sent->data(), sent->size()));
  if (!is_curve_key(key))
    return fail(ErrorCode::malformed_message, "no public key of the new host came with it");
  if (token.until <= unix_seconds_now())
    return fail(ErrorCode::unauthorised, "it expired at " + utc_text(token.until) +
                                             "; meshbus keygen --token makes another");

  const std::string path = options.keys->public_path(wire::Role::host, token.name);
  const auto known = read_public_keys(path);
  const bool is_known = known && std::find(known->begin(), known->end(), key) != known->end();
  if (token.is_used && !is_known)
    return fail(
        ErrorCode::unauthorised,
        "it has been used, at " + utc_text(token.used_at) +
            ", and a token is good once. If that was not you, somebody else has it: remove " +
            path + "; meshbus keygen --token makes another");
  if (!is_known && (known || known.error().code() != ErrorCode::not_exist))
    return fail(ErrorCode::configuration_error,
                "a host of that name has another key there already; to replace it, remove "
                "authorised/host/" +
                    token.name + ".pub there");
  auto all = read_known_keys(*options.keys);
  // The same host asks again: our answer did not reach it.
  if (!is_known) all.push_back({wire::Role::host, token.name, {key}});
  std::string text = known_keys_to_text(all);
  if (text.size() > kBodyLimit)
    return fail(
        ErrorCode::too_large,
        "there are more keys than one message takes; copy the folder authorised from there");
  if (!token.is_used) {
    if (auto let_in = let_host_in(token, key, is_known ? "" : path); !let_in)
      return fail(let_in.error());
  }
  return text;
}

Result<void> Broker::Impl::let_host_in(const TokenRecord& token, const std::string& key,
                                       const std::string& path) {
  const TokenFolder folder(*options.keys);
  // First: of several who come with it at once, to this broker or to others with the same keys, one
  // gets further.
  if (auto used = folder.use(token); !used)
    return used.error().code() == ErrorCode::not_exist
               ? fail(ErrorCode::unauthorised, "it has been used just now, or taken back")
               : used;
  if (!path.empty()) {
    ::mkdir(std::filesystem::path(path).parent_path().c_str(), 0755);
    if (auto written = write_public_keys(path, {key}, token.name); !written) {
      folder.give_back(token);
      return written;
    }
  }
  log::warn("host " + token.name + " has joined, from " + stranger_->credentials.address +
            ", with the key " + key);
  look_for_keys();
  return {};
}

}  // namespace meshbus
