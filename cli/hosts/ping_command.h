#pragma once

namespace CLI {
class App;
}  // namespace CLI

namespace meshbus::cli {

class Commands;
/// `meshbus ping`
void add_ping(CLI::App& app, Commands& commands);

}  // namespace meshbus::cli
