"""Files of the schedulers that operators run: slurm.conf, sshare's shares, Kueue's ClusterQueues."""
