"""RELMAS re-implemented from its abstract: an LSTM over the waiting sub-jobs, DDPG, decisions every period T_s."""
