#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "agent/host/procs/proc.h"

namespace meshbus::host {

/// How meshes travel (schemas/supervision.fbs). Pure. One message holds at most 1 MiB; these stay well below, because brokers count bytes
/// too.
inline constexpr std::size_t report_bytes = 768 * 1024;

/// What is known about a mesh. When the certificates of all ended ranks are too much for one message, the tails of the later ones are left
/// out, then the certificates themselves.
wire::MeshStateT make_mesh_state(const Mesh& mesh, std::size_t bytes = report_bytes);

/// A list entry: without certificates; without ranks too when they are more than `bytes`. Takes what it uses off `bytes`.
wire::MeshStateT make_mesh_entry(const Mesh& mesh, std::size_t& bytes);

/// Cuts changes into messages, in order: all states before the certificates.
std::vector<wire::StateChangedT> make_changes(const std::string& mesh, const std::string& host, std::vector<wire::RankState> ranks,
                                              std::vector<std::unique_ptr<wire::CertificateT>> certificates,
                                              std::size_t bytes = report_bytes);

/// The whole present state as changes: for those who may have missed some.
std::vector<wire::StateChangedT> make_snapshot(const Mesh& mesh, const std::string& host);

}  // namespace meshbus::host
