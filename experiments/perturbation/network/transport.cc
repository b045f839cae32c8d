// Solves a minimum-cost flow problem by LEMON's network simplex, and prints the cost, the flows and the potentials.
//
// LEMON's own dimacs-solver prints times and no flows, so that its output could be compared with nothing.

#include <fstream>
#include <iostream>
#include <lemon/dimacs.h>
#include <lemon/list_graph.h>
#include <lemon/network_simplex.h>

using Graph = lemon::ListDigraph;
using Solver = lemon::NetworkSimplex<Graph, long, long>;

int main(int count, const char *words[])
{
    if (count != 2) {
        std::cerr << "usage: transport FILE\n";
        return 2;
    }
    std::ifstream file(words[1]);
    const lemon::DimacsDescriptor kind = lemon::dimacsType(file);
    if (!file || kind.type != lemon::DimacsDescriptor::MIN) {
        std::cerr << words[1] << ": no minimum-cost flow problem\n";
        return 1;
    }
    Graph graph;
    Graph::ArcMap<long> lower(graph), upper(graph), cost(graph);
    Graph::NodeMap<long> supply(graph);
    lemon::readDimacsMin(file, graph, lower, upper, cost, supply, 0L, kind);

    Solver solver(graph);
    solver.lowerMap(lower).upperMap(upper).costMap(cost).supplyMap(supply);
    if (solver.run() != Solver::OPTIMAL) {
        std::cerr << words[1] << ": has no solution\n";
        return 1;
    }
    std::cout << "cost " << solver.totalCost<long>() << '\n';
    for (Graph::ArcIt arc(graph); arc != lemon::INVALID; ++arc)
        if (solver.flow(arc) != 0)
            std::cout << graph.id(graph.source(arc)) << ' ' << graph.id(graph.target(arc)) << ' ' << solver.flow(arc) << '\n';
}
