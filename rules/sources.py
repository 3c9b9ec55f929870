"""Where the rules come from: one BibTeX entry a paper, and how to cite it in a line."""

import re

RUMELHART_1986 = """\
@article{rumelhart1986learning,
  author = {Rumelhart, David E. and Hinton, Geoffrey E. and Williams, Ronald J.},
  title = {Learning representations by back-propagating errors},
  journal = {Nature},
  volume = {323},
  pages = {533--536},
  year = {1986}
}"""

LILLICRAP_2016 = """\
@article{lillicrap2016random,
  author = {Lillicrap, Timothy P. and Cownden, Daniel and Tweed, Douglas B. and Akerman, Colin J.},
  title = {Random synaptic feedback weights support error backpropagation for deep learning},
  journal = {Nature Communications},
  volume = {7},
  pages = {13276},
  year = {2016}
}"""

NOKLAND_2016 = """\
@inproceedings{nokland2016direct,
  author = {Nøkland, Arild},
  title = {Direct feedback alignment provides learning in deep neural networks},
  booktitle = {Advances in Neural Information Processing Systems},
  year = {2016}
}"""

LANSDELL_2020 = """\
@inproceedings{lansdell2020learning,
  author = {Lansdell, Benjamin James and Prakash, Prashanth Ravi and Kording, Konrad Paul},
  title = {Learning to solve the credit assignment problem},
  booktitle = {International Conference on Learning Representations},
  year = {2020}
}"""

FRENKEL_2021 = """\
@article{frenkel2021learning,
  author = {Frenkel, Charlotte and Lefebvre, Martin and Bol, David},
  title = {Learning without feedback: fixed random learning signals allow for feedforward training
    of deep neural networks},
  journal = {Frontiers in Neuroscience},
  volume = {15},
  pages = {629892},
  year = {2021}
}"""

LIAO_2016 = """\
@inproceedings{liao2016how,
  author = {Liao, Qianli and Leibo, Joel Z. and Poggio, Tomaso},
  title = {How important is weight symmetry in backpropagation?},
  booktitle = {Thirtieth AAAI Conference on Artificial Intelligence},
  year = {2016}
}"""

XIAO_2019 = """\
@inproceedings{xiao2019biologically,
  author = {Xiao, Will and Chen, Honglin and Liao, Qianli and Poggio, Tomaso},
  title = {Biologically-plausible learning algorithms can scale to large datasets},
  booktitle = {International Conference on Learning Representations},
  year = {2019}
}"""

KOLEN_1994 = """\
@inproceedings{kolen1994backpropagation,
  author = {Kolen, John F. and Pollack, Jordan B.},
  title = {Backpropagation without weight transport},
  booktitle = {IEEE International Conference on Neural Networks},
  volume = {3},
  pages = {1375--1380},
  year = {1994}
}"""

AKROUT_2019 = """\
@inproceedings{akrout2019deep,
  author = {Akrout, Mohamed and Wilson, Collin and Humphreys, Peter C. and Lillicrap, Timothy and
    Tweed, Douglas B.},
  title = {Deep learning without weight transport},
  booktitle = {Advances in Neural Information Processing Systems},
  year = {2019}
}"""

WERFEL_2005 = """\
@article{werfel2005learning,
  author = {Werfel, Justin and Xie, Xiaohui and Seung, H. Sebastian},
  title = {Learning curves for stochastic gradient descent in linear feedforward networks},
  journal = {Neural Computation},
  volume = {17},
  pages = {2699--2718},
  year = {2005}
}"""

FIETE_2006 = """\
@article{fiete2006gradient,
  author = {Fiete, Ila R. and Seung, H. Sebastian},
  title = {Gradient learning in spiking neural networks by dynamic perturbation of conductances},
  journal = {Physical Review Letters},
  volume = {97},
  number = {4},
  pages = {048104},
  year = {2006}
}"""

BACHO_2024 = """\
@article{bacho2024low,
  author = {Bacho, Florian and Chu, Dominique},
  title = {Low-variance forward gradients using direct feedback alignment and momentum},
  journal = {Neural Networks},
  year = {2024}
}"""

MEULEMANS_2020 = """\
@inproceedings{meulemans2020theoretical,
  author = {Meulemans, Alexander and Carzaniga, Francesco S. and Suykens, Johan A. K. and
    Sacramento, João and Grewe, Benjamin F.},
  title = {A theoretical framework for target propagation},
  booktitle = {Advances in Neural Information Processing Systems},
  volume = {33},
  pages = {20024--20036},
  year = {2020}
}"""

DELLAFERRERA_2022 = """\
@inproceedings{dellaferrera2022error,
  author = {Dellaferrera, Giorgia and Kreiman, Gabriel},
  title = {Error-driven input modulation: solving the credit assignment problem without a
    backward pass},
  booktitle = {International Conference on Machine Learning},
  volume = {162},
  pages = {4937--4955},
  year = {2022}
}"""

NOKLAND_2019 = """\
@inproceedings{nokland2019training,
  author = {Nøkland, Arild and Eidnes, Lars Hiller},
  title = {Training neural networks with local error signals},
  booktitle = {International Conference on Machine Learning},
  pages = {4839--4850},
  year = {2019}
}"""

WHITTINGTON_2017 = """\
@article{whittington2017approximation,
  author = {Whittington, James C. R. and Bogacz, Rafal},
  title = {An approximation of the error backpropagation algorithm in a predictive coding network
    with local Hebbian synaptic plasticity},
  journal = {Neural Computation},
  volume = {29},
  number = {5},
  pages = {1229--1262},
  year = {2017}
}"""

MILLIDGE_2022 = """\
@article{millidge2022predictive,
  author = {Millidge, Beren and Tschantz, Alexander and Buckley, Christopher L.},
  title = {Predictive coding approximates backprop along arbitrary computation graphs},
  journal = {Neural Computation},
  volume = {34},
  number = {6},
  pages = {1329--1368},
  year = {2022}
}"""

ROSENBAUM_2022 = """\
@article{rosenbaum2022relationship,
  author = {Rosenbaum, Robert},
  title = {On the relationship between predictive coding and backpropagation},
  journal = {PLoS ONE},
  volume = {17},
  number = {3},
  pages = {e0266102},
  year = {2022}
}"""


def citation(entry: str) -> str:
    """A BibTeX entry in one line: family names, title, venue, year.

    An entry without an author or a title comes back as it is, on one line.
    """
    found = re.findall(r'(\w+)\s*=\s*[{"](.*?)[}"]\s*,?\s*$', entry, re.MULTILINE | re.DOTALL)
    told = {name.lower(): " ".join(value.split()) for name, value in found}
    if not told.get("author") or not told.get("title"):
        return " ".join(entry.split())
    names = ", ".join(_family(name) for name in told["author"].split(" and "))
    venues = (told.get(kind) for kind in ("journal", "booktitle", "howpublished", "publisher"))
    where = " ".join(filter(None, [next(filter(None, venues), ""), told.get("year")]))
    return ", ".join(filter(None, [names, f'"{told["title"]}"', where]))


def _family(name: str) -> str:
    """The family name, of `Family, Given` or `Given Family`."""
    family, comma, _ = name.partition(",")
    return family.strip() if comma else name.split()[-1]
