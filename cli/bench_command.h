#pragma once

namespace CLI {
class App;
}  // namespace CLI

namespace meshbus::cli {

class Commands;
/// `meshbus bench`
void add_bench(CLI::App& app, Commands& commands);

}  // namespace meshbus::cli
