"""Passes that choose hardware: modules, parameters, lanes, orders and blocks that layers share."""
